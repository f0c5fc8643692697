#include "cxtrain/optim/libtorch_adapter.h"

#include <ATen/ops/empty.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/checkpoint/zip_directory.h"

namespace cxtrain {
namespace {

/// An archive in memory, as both readers want it.
class ArchiveBytes final : public ReadableFile, public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit ArchiveBytes(at::Tensor bytes) : bytes_(std::move(bytes)) {}

  std::size_t size() const override { return bytes_.nbytes(); }
  std::size_t read(std::uint64_t offset, std::span<char> bytes) const override {
    if (offset >= size()) return 0;
    const std::size_t count = std::min<std::size_t>(bytes.size(), size() - offset);
    std::memcpy(bytes.data(), static_cast<const char*>(bytes_.const_data_ptr()) + offset, count);
    return count;
  }
  std::size_t read(std::uint64_t offset, void* bytes, std::size_t count, const char*) const override {
    return read(offset, {static_cast<char*>(bytes), count});
  }

 private:
  at::Tensor bytes_;
};

/// LibTorch finds records by their names in any case.
std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has_word(std::string_view text, std::string_view word) {
  const auto is_part = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (!is_part(at - 1) && !is_part(at + word.size())) return true;
  }
  return false;
}

/// Whether a record may have a program, or name C++ classes. Other records are values.
bool is_looked_at(const std::string& record) {
  return record.starts_with("code/") || record.ends_with(".pkl") || record.ends_with(".py");
}

/// Checks an archive in which an optimizer of LibTorch has saved its state, before LibTorch reads the
/// archive: LibTorch compiles the program of an archive, and runs parts of the program while it reads. The
/// program of a saved optimizer has classes without functions. `bytes`: the archive, uint8 [n]; it may come
/// from anybody. `name`: for the message. Throws StateError for an archive with functions or with objects of
/// LibTorch's C++ classes, and for one that would unpack to more than the memory should hold.
void require_no_program(const at::Tensor& bytes, const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    throw StateError("the saved state " + name + " is refused: " + why +
                     "; resume from a checkpoint that you trust, or train with another optimizer");
  };
  const auto archive = std::make_shared<ArchiveBytes>(bytes.cpu().contiguous());
  try {
    constexpr std::uint64_t kMaxUnpacked = std::uint64_t{16} << 20;
    for (const ZipRecord& record : read_zip_directory(*archive)) {
      if (record.bytes > std::max<std::uint64_t>(archive->size(), kMaxUnpacked))
        refuse("a record of its archive would have more bytes than the archive");
    }
    caffe2::serialize::PyTorchStreamReader reader(archive);
    for (const std::string& record : reader.getAllRecords()) {
      const std::string kind = lower_case(record);
      if (kind.ends_with("model.json"))
        refuse("its archive has a format of before 2019, which may run a program");
      if (!is_looked_at(kind)) continue;
      const auto [content, size] = reader.getRecord(record);
      const std::string_view text(static_cast<const char*>(content.get()), size);
      if (has_word(text, "def") || text.find("torch.classes") != std::string_view::npos)
        refuse("its archive has a program, which would run when the state is loaded");
    }
  } catch (const StateError&) {
    throw;
  } catch (const std::exception&) {  // messages of the readers name bytes of the archive
    refuse("its archive is damaged");
  }
}

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

void set_weight_decay(torch::optim::OptimizerOptions& options, double decay) {
  if (auto* const rmsprop = dynamic_cast<torch::optim::RMSpropOptions*>(&options))
    rmsprop->weight_decay(decay);
  if (auto* const adagrad = dynamic_cast<torch::optim::AdagradOptions*>(&options))
    adagrad->weight_decay(decay);
}

class LibTorchAdapter final : public Optimizer {
 public:
  LibTorchAdapter(const LibTorchOptimizer& config, const std::vector<ResolvedGroup>& groups,
                  std::span<const Piece> pieces, bool sets_decay)
      : name_(config.name),
        state_name_("libtorch." + name_ + (pieces.empty() ? "" : "." + pieces.front().name)),
        needs_closure_(config.needs_closure) {
    for (const Piece& piece : pieces) {
      if (!piece.is_whole())
        throw ConfigError("optimizer", name_ + " updates whole parameters, and has a part of " + piece.name);
      parameters_.push_back(piece.values);
    }
    Groups lists;
    for (const ResolvedGroup& group : groups) {
      lists.emplace_back(transformed(group.pieces, [this](std::size_t piece) { return parameters_[piece]; }));
      base_rates_.push_back(group.lr);
    }
    if (needs_closure_ && lists.size() > 1) {
      throw ConfigError("optimizer",
                        name_ + " takes one parameter group, the model has " + std::to_string(lists.size()),
                        "", MessageCode::bad_model);
    }
    optimizer_ = config.make(std::move(lists));
    for (std::size_t i = 0; sets_decay && i < groups.size(); ++i)
      set_weight_decay(optimizer_->param_groups()[i].options(), groups[i].weight_decay);
    set_lr_factor(1);
  }

  void step(const StepInputs& inputs) override {
    if (inputs.found_inf != nullptr && inputs.found_inf->item<float>() != 0) return;
    if (!needs_closure_) {
      take_gradients(inputs);
      optimizer_->step();
      return;
    }
    optimizer_->step([&] {
      at::Tensor loss = inputs.closure();
      take_gradients(inputs);
      return loss;
    });
  }

  bool needs_closure() const override { return needs_closure_; }

  void set_lr_factor(double factor) override {
    factor_ = factor;
    auto& groups = optimizer_->param_groups();
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(base_rates_[i] * factor);
  }

  std::vector<double> learning_rates() const override {
    return transformed(base_rates_, [this](double rate) { return rate * factor_; });
  }

  /// LibTorch keeps the state in one class per optimizer; an archive is the one form that all of them have.
  std::vector<Piece> state() const override {
    forget_scratch();
    torch::serialize::OutputArchive archive;
    optimizer_->save(archive);
    std::ostringstream stream;
    archive.save_to(stream);
    const std::string text = std::move(stream).str();
    const at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
    std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<std::uint8_t>());
    if (read(bytes).keys().empty()) {
      throw TrainingError(
          "the state of the optimizer " + name_ +
          " cannot be saved: its class has to override torch::optim::Optimizer's save and load");
    }
    return {whole_piece(state_name_, bytes)};
  }

  void load(std::span<const Piece> state) override {
    const at::Tensor bytes = saved_in(state).read();
    require_no_program(bytes, state_name_);
    // LibTorch's load replaces this run's options by the saved options.
    auto options =
        transformed(optimizer_->param_groups(), [](const auto& group) { return group.options().clone(); });
    try {
      torch::serialize::InputArchive archive = read(bytes);
      optimizer_->load(archive);
    } catch (const c10::Error& error) {
      throw StateError("the saved state of the optimizer " + name_ +
                           " is of other parameters: use the model of that run, and with pipeline as many "
                           "stages (" +
                           shortened(message_of(error), 300) + ")",
                       MessageCode::model_mismatch);
    }
    for (std::size_t i = 0; i < options.size(); ++i)
      optimizer_->param_groups()[i].set_options(std::move(options[i]));
    set_lr_factor(factor_);
  }

 private:
  /// LBFGS keeps a list as long as its history for its own use within a step, and cannot save it before the
  /// history is full.
  void forget_scratch() const {
    for (auto& [parameter, state] : optimizer_->state()) {
      if (auto* lbfgs = dynamic_cast<torch::optim::LBFGSParamState*>(state.get())) lbfgs->al(std::nullopt);
    }
  }

  const Piece& saved_in(std::span<const Piece> state) const {
    // Earlier commits saved without the name of a parameter.
    for (const std::string& name : {state_name_, "libtorch." + name_}) {
      const auto saved = std::ranges::find(state, name, &Piece::name);
      if (saved != state.end() && saved->is_whole()) return *saved;
    }
    throw StateError("the saved state lacks " + state_name_);
  }

  /// The tensors come to the parameters' device, whichever device they were saved from. The state of
  /// parameters on several devices comes to the devices that it was saved from.
  torch::serialize::InputArchive read(const at::Tensor& bytes) const {
    const at::Tensor flat = bytes.cpu().contiguous();
    torch::serialize::InputArchive archive;
    archive.load_from(reinterpret_cast<const char*>(flat.const_data_ptr<std::uint8_t>()), flat.nbytes(),
                      only_device());
    return archive;
  }

  /// The device of all parameters; absent if the parameters lie on several devices.
  std::optional<at::Device> only_device() const {
    if (parameters_.empty()) return std::nullopt;
    const at::Device first = parameters_.front().device();
    const bool alike = std::ranges::all_of(
        parameters_, [first](const at::Tensor& parameter) { return parameter.device() == first; });
    return alike ? std::optional(first) : std::nullopt;
  }

  /// It reads them from its parameters.
  void take_gradients(const StepInputs& inputs) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = inputs.gradients[i];
  }

  std::string name_;
  std::string state_name_;  ///< with the first parameter's name: stages of a pipeline have other parameters
  bool needs_closure_;
  std::vector<at::Tensor> parameters_;
  std::vector<double> base_rates_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  double factor_ = 1;
};

}  // namespace

LibTorchOptimizer libtorch_optimizer(const Rmsprop& config) {
  return {"rmsprop", config.lr, false, [config](const Groups& groups) {
            return std::make_unique<torch::optim::RMSprop>(groups, torch::optim::RMSpropOptions(config.lr)
                                                                       .alpha(config.alpha)
                                                                       .momentum(config.momentum)
                                                                       .weight_decay(config.weight_decay));
          }};
}

LibTorchOptimizer libtorch_optimizer(const Adagrad& config) {
  return {"adagrad", config.lr, false, [config](const Groups& groups) {
            return std::make_unique<torch::optim::Adagrad>(groups, torch::optim::AdagradOptions(config.lr)
                                                                       .lr_decay(config.lr_decay)
                                                                       .weight_decay(config.weight_decay));
          }};
}

LibTorchOptimizer libtorch_optimizer(const Lbfgs& config) {
  return {"lbfgs", config.lr, true, [config](const Groups& groups) {
            return std::make_unique<torch::optim::LBFGS>(groups, torch::optim::LBFGSOptions(config.lr)
                                                                     .max_iter(config.max_iter)
                                                                     .history_size(config.history_size));
          }};
}

std::unique_ptr<Optimizer> make_libtorch_optimizer(const LibTorchOptimizer& config,
                                                   const std::vector<ResolvedGroup>& groups,
                                                   std::span<const Piece> pieces, bool sets_decay) {
  return std::make_unique<LibTorchAdapter>(config, groups, pieces, sets_decay);
}

}  // namespace cxtrain
