#include "cxtrain/trainer/evaluation_loop.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "cxtrain/cluster/world.h"

namespace cxtrain {
namespace {

/// Evaluation mode while it lives; then each layer is back in the mode that it had, and so is the running
/// loop's view of itself.
class EvaluationMode {
 public:
  EvaluationMode(TrainContext& context, std::int64_t batches)
      : context_(context),
        outer_(context.progress),
        modes_(context.parts.module.training_modes()),
        states_(context.parts.module.all_metrics()) {
    context.parts.module.set_training(false);
    context.progress.num_batches = batches;
    context.progress.batch_idx = 0;
    context.progress.step_output.reset();
  }
  ~EvaluationMode() {
    context_.metrics.set_suffix("");
    context_.progress = std::move(outer_);
    context_.parts.module.set_training_modes(modes_);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  TrainContext& context_;
  Progress outer_;
  std::vector<bool> modes_;
  FreshStates states_;  ///< of the model's metrics
};

/// The ranks vote some ten times a second, after the same batches on all ranks, on whether a signal has come.
/// With a vote at each batch, fast ranks would wait for slow ones.
class SignalPolls {
 public:
  explicit SignalPolls(TrainContext& context) : context_(context), since_(context.clock.now()) {}

  /// Called by every rank for every batch. Throws Interrupted.
  void before_batch() {
    if (++batches_ < interval_) return;
    context_.leave_if_asked();
    // The slowest rank's number of batches in that time.
    constexpr double kSeconds = 0.1, kMost = 1 << 16;
    const double now = context_.clock.now();
    const double wanted = kSeconds * static_cast<double>(batches_) / std::max(now - since_, 1e-9);
    interval_ = -context_.parts.world.max(-static_cast<std::int64_t>(std::clamp(wanted, 1.0, kMost)));
    batches_ = 0;
    since_ = now;
  }

 private:
  TrainContext& context_;
  double since_;
  std::int64_t batches_ = 0, interval_ = 1;
};

/// The hooks around an evaluation, which validation and test have alike.
template <class Start, class EpochStart, class BatchStart, class BatchEnd, class EpochEnd, class End>
struct StageHooks {
  EvaluationStage stage;
  const LogRule& step;
  const Start& start;
  const EpochStart& epoch_start;
  const BatchStart& batch_start;
  const BatchEnd& batch_end;
  const EpochEnd& epoch_end;
  const End& end;
};
template <class Start, class EpochStart, class BatchStart, class BatchEnd, class EpochEnd, class End>
StageHooks(EvaluationStage, const LogRule&, const Start&, const EpochStart&, const BatchStart&,
           const BatchEnd&, const EpochEnd&, const End&)
    -> StageHooks<Start, EpochStart, BatchStart, BatchEnd, EpochEnd, End>;

/// Runs the steps of one loader. Returns false if the model does not define the step.
bool evaluate_loader(TrainContext& context, const auto& hooks, DataLoader& loader, std::int64_t batches,
                     SignalPolls& signals) {
  loader.start_epoch(0, 0, batches);
  const std::int64_t before = context.progress.batch_idx;
  Batch batch;
  while (context.batches.next(loader, batch)) {
    signals.before_batch();
    context.progress.batch_idx = before + loader.batch_idx();
    context.progress.samples_per_batch = loader.global_size();
    const bool has_samples = batch.size > 0;  // or none is left for this rank in an uneven last batch
    const LogScope scope(context.metrics, hooks.step, batch.size);
    if (has_samples) context.call(hooks.batch_start, batch, loader.batch_idx());
    try {
      context.parts.strategy.evaluation_step(hooks.stage, batch, loader.batch_idx());
    } catch (const StepNotDefined&) {
      return false;
    }
    if (has_samples) context.call(hooks.batch_end, batch, loader.batch_idx());
  }
  context.progress.batch_idx = before + batches;
  return true;
}

std::optional<MetricStore::Values> evaluate_stage(TrainContext& context, const auto& hooks,
                                                  std::span<const std::unique_ptr<DataLoader>> loaders,
                                                  std::span<const std::int64_t> batches) {
  const EvaluationMode mode(context, std::accumulate(batches.begin(), batches.end(), std::int64_t{0}));
  context.call(hooks.start);
  context.call(hooks.epoch_start);
  SignalPolls signals(context);
  MetricStore::Values values;
  bool defined = true;
  for (std::size_t i = 0; defined && i < loaders.size(); ++i) {
    context.progress.dataloader_idx = static_cast<int>(i);
    if (loaders.size() > 1) context.metrics.set_suffix("/dataloader_idx_" + std::to_string(i));
    defined = evaluate_loader(context, hooks, *loaders[i], batches[i], signals);
    // A rank without a sample has not found out.
    defined = context.parts.world.max(defined ? 0 : 1) == 0;
    if (i + 1 == loaders.size() || !defined) break;
    context.metrics.reduce_metrics(context.parts.world);
    const MetricStore::Values own =
        context.metrics.reduce_epoch(LogRule::Phase::evaluation, context.parts.world);
    values.insert(values.end(), own.begin(), own.end());
  }
  context.metrics.set_suffix("");  // hooks at the end log for all loaders
  if (!defined) return std::nullopt;
  context.metrics.reduce_metrics(context.parts.world);
  context.call(hooks.epoch_end);
  const MetricStore::Values own =
      context.metrics.reduce_epoch(LogRule::Phase::evaluation, context.parts.world);
  values.insert(values.end(), own.begin(), own.end());
  context.call(hooks.end);
  return values;
}

}  // namespace

std::optional<MetricStore::Values> evaluate(TrainContext& context, EvaluationStage stage,
                                            std::span<const std::unique_ptr<DataLoader>> loaders,
                                            std::span<const std::int64_t> batches) {
  if (stage == EvaluationStage::validate) {
    const StageHooks validation{stage,
                                hooks::kValidationStep,
                                hooks::on_validation_start,
                                hooks::on_validation_epoch_start,
                                hooks::on_validation_batch_start,
                                hooks::on_validation_batch_end,
                                hooks::on_validation_epoch_end,
                                hooks::on_validation_end};
    return evaluate_stage(context, validation, loaders, batches);
  }
  const StageHooks test{stage,
                        hooks::kTestStep,
                        hooks::on_test_start,
                        hooks::on_test_epoch_start,
                        hooks::on_test_batch_start,
                        hooks::on_test_batch_end,
                        hooks::on_test_epoch_end,
                        hooks::on_test_end};
  return evaluate_stage(context, test, loaders, batches);
}

Predictions predict(TrainContext& context, DataLoader& loader, std::int64_t batches) {
  const EvaluationMode mode(context, batches);
  context.call(hooks::on_predict_start);
  loader.start_epoch(0, 0, batches);
  SignalPolls signals(context);
  Predictions predictions;
  Batch batch;
  bool defined = true;
  while (defined && context.batches.next(loader, batch)) {
    signals.before_batch();
    context.progress.batch_idx = loader.batch_idx();
    context.progress.samples_per_batch = loader.global_size();
    const bool has_samples = batch.size > 0;
    if (has_samples) context.call(hooks::on_predict_batch_start, batch, loader.batch_idx());
    try {
      const LogScope scope(context.metrics, hooks::kPredictStep);
      context.progress.step_output = context.parts.strategy.predict_step(batch, loader.batch_idx());
    } catch (const StepNotDefined&) {
      defined = false;
      break;
    }
    if (!has_samples || !context.progress.step_output.defined()) continue;
    predictions.outputs.push_back(context.progress.step_output.cpu());
    predictions.indices.insert(predictions.indices.end(), batch.indices.begin(), batch.indices.end());
    context.call(hooks::on_predict_batch_end, batch, loader.batch_idx());
  }
  run_agreed(context.parts.world, [&] {
    if (!defined) throw StepNotDefined("predict", "predict_step");
  });
  context.call(hooks::on_predict_end);
  return predictions;
}

}  // namespace cxtrain
