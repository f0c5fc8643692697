#include "cxtrain/trainer/checkpoint_manager.h"

#include <utility>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/base/version.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

CheckpointManager::CheckpointManager(TrainContext& context, FitData& loaders, Optimization& optimization,
                                     const std::string& config, std::string data)
    : context_(context),
      state_(context, loaders, optimization),
      writer_({context.parts.world, context.parts.files, trainable(context.parts.module),
               &context.parts.strategy, state_.sections_of_each_rank()}),
      config_(config),
      data_(std::move(data)) {}

bool CheckpointManager::save(const StepVote& vote) {
  const PhaseScope phase(Phase::checkpoint);
  finish();  // callbacks plan by what is on the disk
  const std::int64_t saved_before = context_.saved.count;
  context_.progress.ends_with_checkpoint = vote.ends_run();
  const std::vector<Planned> plans = plan(vote);
  const StateDict state = state_.save();
  context_.hooks.call(hooks::on_checkpoint, state);
  for (const Planned& planned : plans) write(state, planned);
  if (!vote.ends_run()) return false;
  finish();
  return context_.parts.world.any_rank(context_.saved.count > saved_before);
}

std::vector<CheckpointManager::Planned> CheckpointManager::plan(const StepVote& vote) {
  CheckpointOccasion occasion{.must_save = vote.save || vote.ends_run()};
  std::vector<Planned> plans;
  for (Callback* const callback : context_.hooks.callbacks()) {
    std::optional<CheckpointPlan> plan = callback->plan_checkpoint(context_.run, occasion);
    if (!plan) continue;
    occasion.paths.insert(plan->path);
    if (!plan->weights_only) occasion.must_save = false;
    plans.push_back({callback, std::move(*plan)});
  }
  return plans;
}

void CheckpointManager::write(const StateDict& state, const Planned& planned) {
  finish();
  under_way_ = planned;
  if (!writer_.begin(state, planned.plan, manifest())) note(false);
}

void CheckpointManager::note(std::optional<bool> complete) {
  if (!complete) return;
  if (*complete && !under_way_.plan.weights_only) context_.saved.add(writer_.last_seconds());
  under_way_.callback->on_checkpoint_written(*complete);
}

Manifest CheckpointManager::manifest() const {
  const TrainState& state = context_.state;
  Manifest manifest;
  manifest.program = std::string("cxtrain ") + CXTRAIN_VERSION;
  manifest.epoch = state.epoch;
  manifest.batch = state.batch;
  manifest.global_step = state.global_step;
  manifest.samples = state.samples;
  manifest.seed = state.seed;
  manifest.global_batch = context_.progress.samples_per_step;
  manifest.world_size = context_.parts.world.size();
  manifest.strategy = context_.parts.plan.strategy;
  manifest.precision = context_.parts.plan.precision;
  manifest.model = context_.model_name();
  manifest.data = data_;
  manifest.created = seconds_since_1970();
  manifest.config = config_;
  manifest.log_dir = context_.parts.log_dir;
  manifest.metrics = context_.metrics.all();
  return manifest;
}

}  // namespace cxtrain
