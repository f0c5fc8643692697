#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "cxtrain/accelerator/make_communicator.h"
#include "cxtrain/base/error.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/tensor/norms.h"

/// A strategy that nobody should use, from installed headers alone: each parameter lies on one rank, its
/// owner. The others get it for a forward and backward pass, and forget it. What works with it assumes
/// nowhere that a rank holds the whole model.
namespace {

using namespace cxtrain;

/// The model's trainable parameters, dealt out in turns.
class OwnedModel {
 public:
  OwnedModel(std::vector<NamedTensor> parameters, Communicator& comm)
      : parameters_(std::move(parameters)), comm_(comm) {
    for (const NamedTensor& named : parameters_) shapes_.push_back(named.tensor.sizes().vec());
  }

  std::size_t count() const { return parameters_.size(); }
  const NamedTensor& parameter(std::size_t i) const { return parameters_[i]; }
  int owner(std::size_t i) const { return static_cast<int>(i) % comm_.size(); }
  bool is_mine(std::size_t i) const { return owner(i) == comm_.rank(); }
  /// Also buffers, which every rank has.
  bool has(const std::string& name) const {
    for (std::size_t i = 0; i < count(); ++i)
      if (parameters_[i].name == name) return is_mine(i);
    return true;
  }
  Communicator& comm() const { return comm_; }

  /// Every rank gets all values from their owners.
  void gather() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < count(); ++i) {
      const at::Tensor& tensor = parameters_[i].tensor;
      if (!is_mine(i))
        at::Tensor(tensor).set_data(at::empty(shapes_[i], tensor.options().requires_grad(false)));
      comm_.broadcast(tensor.detach(), owner(i));
    }
    comm_.join();
  }
  void forget() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < count(); ++i) {
      const at::Tensor& tensor = parameters_[i].tensor;
      // Of the whole's shape, without its memory.
      if (!is_mine(i))
        at::Tensor(tensor).set_data(at::zeros({}, tensor.options().requires_grad(false)).expand(shapes_[i]));
    }
  }

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<std::vector<std::int64_t>> shapes_;
  Communicator& comm_;
};

/// While it lives, the model is whole here.
struct Gathered {
  explicit Gathered(OwnedModel& owned) : model(owned) { model.gather(); }
  ~Gathered() { model.forget(); }
  Gathered(const Gathered&) = delete;
  Gathered& operator=(const Gathered&) = delete;

  OwnedModel& model;
};

class OwnedParameters final : public TrainedParameters {
 public:
  OwnedParameters(OwnedModel& model, TensorSync& buffers, GradientExchange& exchange)
      : model_(model), buffers_(buffers), exchange_(exchange) {
    for (std::size_t i = 0; i < model.count(); ++i) {
      if (!model.is_mine(i)) continue;
      pieces_.push_back(whole_piece(model.parameter(i).name, model.parameter(i).tensor));
    }
    gradients_.resize(pieces_.size());
  }

  GradientExchange& exchange() override { return exchange_; }
  std::span<const Piece> pieces() const override { return pieces_; }
  std::span<const at::Tensor> gradients() const override { return gradients_; }

  void synchronize() override {
    const at::NoGradGuard no_grad;
    model_.gather();  // gradients have the shapes of whole parameters
    std::size_t mine = 0;
    for (std::size_t i = 0; i < model_.count(); ++i) {
      const at::Tensor& tensor = model_.parameter(i).tensor;
      at::Tensor& gradient = tensor.mutable_grad();
      const at::Tensor has = at::full({1}, gradient.defined() ? 1.0 : 0.0);
      model_.comm().all_reduce(has, ReduceOp::max);
      if (has.item<float>() > 0) {
        if (!gradient.defined()) gradient = at::zeros_like(tensor);
        model_.comm().all_reduce(gradient, ReduceOp::avg);
      }
      if (model_.is_mine(i)) {
        gradients_[mine++] = gradient;
      } else {
        gradient.reset();
      }
    }
    model_.forget();
  }

  std::vector<at::Tensor> gradient_norms(double order) override {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> own = norms(gradients_, order);
    const auto count = static_cast<std::int64_t>(model_.count());
    const at::Tensor found = at::zeros({2, count}, at::kDouble);  // there is one, and what it is
    std::int64_t mine = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!model_.is_mine(static_cast<std::size_t>(i))) continue;
      const at::Tensor& norm = own[static_cast<std::size_t>(mine++)];
      if (!norm.defined()) continue;
      found[0][i] = 1;
      found[1][i] = norm;
    }
    model_.comm().all_reduce(found, ReduceOp::sum);
    std::vector<at::Tensor> result(model_.count());
    for (std::int64_t i = 0; i < count; ++i) {
      if (found[0][i].item<double>() > 0) result[static_cast<std::size_t>(i)] = found[1][i].to(at::kFloat);
    }
    return result;
  }

  void agree_on_overflow(const at::Tensor& found) override { model_.comm().all_reduce(found, ReduceOp::max); }

  void publish() override {
    std::fill(gradients_.begin(), gradients_.end(), at::Tensor());
    buffers_.broadcast();
  }

 private:
  OwnedModel& model_;
  TensorSync& buffers_;
  GradientExchange& exchange_;
  std::vector<Piece> pieces_;
  std::vector<at::Tensor> gradients_;
};

class OwnerStrategy final : public LocalStrategy {
 public:
  void place(Trainable& module, const StrategyContext& context) override {
    if (context.precision.master_weights)
      throw ConfigError("trainer.amp_level", "owner keeps no master weights", "use another precision");
    LocalStrategy::place(module, context);
  }

  void connect() override {
    comm_ = make_communicator(context_->world, context_->devices, context_->accelerator);
    TensorSync::broadcast_once(module_->all_parameters(), *comm_);
    buffers_.emplace(module_->all_buffers(), *comm_);
    buffers_->broadcast();
    model_.emplace(trainable_parameters(*module_), *comm_);
    model_->forget();
  }

  DataShard data_shard() const override { return {context_->world.rank(), context_->world.size()}; }

  void forward(const Batch& batch, std::int64_t batch_idx) override {
    const Gathered whole(*model_);
    LocalStrategy::forward(batch, batch_idx);
  }
  void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) override {
    const Gathered whole(*model_);
    LocalStrategy::evaluation_step(stage, batch, batch_idx);
  }
  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override {
    const Gathered whole(*model_);
    return LocalStrategy::predict_step(batch, batch_idx);
  }
  void visit_whole(const std::function<void(const NamedTensor&)>& visit) override {
    const Gathered whole(*model_);
    LocalStrategy::visit_whole(visit);
  }

  bool ranks_keep_whole_models() const override { return false; }
  std::vector<NamedTensor> whole_tensors() override {
    std::vector<NamedTensor> here = LocalStrategy::whole_tensors();
    std::erase_if(here, [this](const NamedTensor& named) { return !model_->has(named.name); });
    return here;
  }

  std::string describe() const override { return "each parameter on one rank"; }

  void teardown() override {
    release_exchanges();
    model_->gather();
    model_.reset();
    buffers_.reset();
    comm_.reset();
  }

 private:
  StepOutput training_step(const MicroStep& step) override {
    const Gathered whole(*model_);
    return LocalStrategy::training_step(step);
  }
  /// Of one optimizer.
  std::unique_ptr<TrainedParameters> make_trained(const OptimizerTarget&,
                                                  GradientExchange& exchange) override {
    return std::make_unique<OwnedParameters>(*model_, *buffers_, exchange);
  }

  std::unique_ptr<Communicator> comm_;
  std::optional<TensorSync> buffers_;
  std::optional<OwnedModel> model_;
};

}  // namespace

CXTRAIN_PLUGIN("strategy owner", [](cxtrain::Registry& registry) {
  registry.add<OwnerStrategy>("owner", "each parameter on one rank", {});
})
