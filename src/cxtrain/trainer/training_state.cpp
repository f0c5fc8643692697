#include "cxtrain/trainer/training_state.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {
namespace {

constexpr const char *kLoop = "loop", *kCallbacks = "callbacks", *kLoggers = "loggers", *kModule = "module",
                     *kData = "data";

std::string to_digits(const std::vector<bool>& flags) {
  std::string digits;
  for (const bool flag : flags) digits += flag ? '1' : '0';
  return digits;
}

std::vector<std::string> callback_keys(const TrainContext& context) {
  return distinct_keys(transformed(context.hooks.callbacks(), &Callback::state_key));
}

void load_callbacks(const StateDict& state, TrainContext& context) {
  const std::vector<std::string> keys = callback_keys(context);
  for (const auto& [key, section] : state.sections()) {
    // Those that the program adds by itself, as its progress bar, come and go with --quiet or the number of
    // ranks.
    const bool of_program = key.starts_with("cxtrain::");
    if (of_program || std::ranges::find(keys, key) != keys.end()) continue;
    log_warning("the saved state has something for a callback " + key +
                ", which this run does not have; it is left out");
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (state.has_section(keys[i])) context.hooks.callbacks()[i]->on_load_checkpoint(state.section(keys[i]));
  }
}

}  // namespace

/// Parameters, as far as this rank updates them and in the precision in which it does, and all else that a
/// module has: parameters that nobody trains, buffers, which parameters are frozen, and the layers' modes.
class TrainingState::Model final : public Stateful {
 public:
  Model(Trainable& module, Optimization& optimization) : module_(module), optimization_(optimization) {}

  std::string state_key() const override { return "model"; }
  void save(StateDict& state) const override {
    state.make_section("parameters").add(trained());
    state.make_section("other").add(other());
    std::string frozen;
    for (const NamedTensor& parameter : module_.all_parameters()) {
      if (!parameter.tensor.requires_grad()) frozen += parameter.name + '\n';
    }
    state.set("frozen", frozen);
    state.set("training_modes", to_digits(module_.training_modes()));
  }
  void load(const StateDict& state) override {
    fill_pieces(other(), state.section("other").pieces());
    fill_pieces(optimization_.pieces(), state.section("parameters").pieces());
    load_flags(state);
  }
  void load_flags(const StateDict& state) {
    std::set<std::string> frozen;
    std::istringstream lines(state.text("frozen"));
    for (std::string name; std::getline(lines, name);) frozen.insert(name);
    for (NamedTensor& parameter : module_.all_parameters()) {
      const bool trains = !frozen.contains(parameter.name);
      if (parameter.tensor.requires_grad() != trains) parameter.tensor.set_requires_grad(trains);
    }
    const std::vector<bool> modes =
        transformed(state.text("training_modes"), [](char digit) { return digit == '1'; });
    if (modes.size() != module_.training_modes().size())
      throw StateError("the saved state belongs to another model: it has " + std::to_string(modes.size()) +
                           " modules, this one " + std::to_string(module_.training_modes().size()),
                       MessageCode::model_mismatch);
    module_.set_training_modes(modes);
  }

 private:
  /// What this rank updates: parts of the model's parameters, or copies in higher precision.
  std::vector<Piece> trained() const { return optimization_.pieces_in_model(); }
  /// Whole on every rank.
  std::vector<Piece> other() const {
    std::set<std::string> trained;
    for (const NamedTensor& parameter : optimization_.parameters()) trained.insert(parameter.name);
    std::vector<Piece> pieces = whole_pieces(module_.all_buffers());
    for (NamedTensor& parameter : module_.all_parameters()) {
      if (!trained.contains(parameter.name))
        pieces.push_back(whole_piece(parameter.name, std::move(parameter.tensor)));
    }
    for (Piece& piece : pieces) piece.of_model = true;
    return pieces;
  }

  Trainable& module_;
  Optimization& optimization_;
};

TrainingState::TrainingState(TrainContext& context, FitData& loaders, Optimization& optimization)
    : context_(context),
      optimization_(optimization),
      model_(std::make_unique<Model>(trainable(context.parts.module), optimization)),
      parts_{model_.get(), &optimization, &context.parts.strategy, &context.metrics,
             &context.parts.generators} {
  if (loaders.train().is_stream()) parts_.push_back(&loaders);
}

TrainingState::~TrainingState() = default;

StateDict TrainingState::save() const {
  StateDict state;
  context_.save_place(state.make_section(kLoop));
  for (const Stateful* part : parts_) part->save(state.make_section(part->state_key()));
  const std::vector<std::string> keys = callback_keys(context_);
  StateDict& callbacks = state.make_section(kCallbacks);
  for (std::size_t i = 0; i < keys.size(); ++i)
    context_.hooks.callbacks()[i]->on_save_checkpoint(callbacks.make_section(keys[i]));
  context_.rows.loggers.on_save_checkpoint(state.make_section(kLoggers));
  context_.parts.module.on_save_checkpoint(state.make_section(kModule));
  context_.parts.data.on_save_checkpoint(state.make_section(kData));
  return state;
}

std::set<std::string> TrainingState::sections_of_each_rank() const {
  std::set<std::string> sections;
  for (const Stateful* part : parts_) {
    if (part->differs_between_ranks()) sections.insert(part->state_key());
  }
  return sections;
}

void TrainingState::load(StateDict state, const RunFolder& from) {
  optimization_.begin_update();
  run_agreed(context_.parts.world, [&] {
    state.section(kLoggers);
    for (Stateful* part : parts_) part->load(state.section(part->state_key()));
  });
  optimization_.publish();
  run_agreed(context_.parts.world, [&] {
    context_.parts.module.on_load_checkpoint(state.section(kModule));
    load_callbacks(state.section(kCallbacks), context_);
  });
  loaded_.emplace(Loaded{std::move(state), from});
}

void TrainingState::reapply_loaded_state() {
  if (!loaded_) return;
  const StateDict& state = loaded_->state;
  model_->load_flags(state.section(model_->state_key()));
  for (Stateful* part : std::array<Stateful*, 2>{&context_.metrics, &context_.parts.generators})
    part->load(state.section(part->state_key()));
  // Files are cut once nothing can refuse the state any more, and before the first row.
  context_.rows.loggers.on_load_checkpoint(state.section(kLoggers), loaded_->from);
  loaded_.reset();
}

void load_place_and_data(const StateDict& state, TrainContext& context) {
  run_agreed(context.parts.world, [&] {
    context.load_place(state.section(kLoop));
    context.parts.data.on_load_checkpoint(state.section(kData));
  });
}

}  // namespace cxtrain
