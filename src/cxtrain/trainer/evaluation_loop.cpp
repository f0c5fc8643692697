#include "cxtrain/trainer/evaluation_loop.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "cxtrain/base/log.h"
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
        modes_(trainable(context.parts.module).training_modes()),
        states_(trainable(context.parts.module).all_metrics()) {
    trainable(context.parts.module).set_training(false);
    context.progress.num_batches = batches < kUnknownBatches ? batches : -1;
    context.progress.batch_idx = 0;
  }
  ~EvaluationMode() {
    context_.metrics.set_suffix("");
    context_.progress = outer_;
    trainable(context_.parts.module).set_training_modes(modes_);
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
  SignalPolls(TrainContext& context, bool saves_state)
      : context_(context), saves_state_(saves_state), since_(context.clock.now()) {}

  /// Called by every rank for every batch. Throws Interrupted.
  void before_batch() {
    if (++batches_ < interval_) return;
    context_.leave_if_asked(saves_state_);
    // The slowest rank's number of batches in that time.
    constexpr double kSeconds = 0.1, kMaxBatches = 1 << 16;
    const double now = context_.clock.now();
    const double wanted = kSeconds * static_cast<double>(batches_) / std::max(now - since_, 1e-9);
    interval_ = -context_.parts.world.max(-static_cast<std::int64_t>(std::clamp(wanted, 1.0, kMaxBatches)));
    batches_ = 0;
    since_ = now;
  }

 private:
  TrainContext& context_;
  bool saves_state_;
  double since_;
  std::int64_t batches_ = 0, interval_ = 1;
};

using StageHook = std::remove_const_t<decltype(hooks::on_test_start)>;
using BatchHook = std::remove_const_t<decltype(hooks::on_test_batch_start)>;

/// The rule for what the step of a stage logs, and the hooks of the stage except the one at a batch's end.
struct StageHooks {
  const LogRule& step;
  const StageHook &start, &epoch_start;
  const BatchHook& batch_start;
  const StageHook &epoch_end, &end;
};
constexpr StageHooks kValidation{hooks::kValidationStep,           hooks::on_validation_start,
                                 hooks::on_validation_epoch_start, hooks::on_validation_batch_start,
                                 hooks::on_validation_epoch_end,   hooks::on_validation_end};
constexpr StageHooks kTest{hooks::kTestStep,           hooks::on_test_start,     hooks::on_test_epoch_start,
                           hooks::on_test_batch_start, hooks::on_test_epoch_end, hooks::on_test_end};
constexpr StageHooks kPrediction{hooks::kPredictStep,           hooks::on_predict_start,
                                 hooks::on_predict_epoch_start, hooks::on_predict_batch_start,
                                 hooks::on_predict_epoch_end,   hooks::on_predict_end};

/// One evaluation over loaders, `batches[i]` batches of `loaders[i]`.
struct Evaluation {
  using OnBatch = std::function<void(const Batch& batch, std::int64_t batch_idx)>;

  TrainContext& context;
  const StageHooks& hooks;
  std::span<const std::unique_ptr<DataLoader>> loaders;
  std::span<const std::int64_t> batches;
  OnBatch step;       ///< runs the step of a batch
  OnBatch end_batch;  ///< calls the hook after the step, on ranks with samples

  /// Returns the logged metrics; null if the model does not define the step.
  std::optional<MetricStore::Values> run(bool saves_state) const {
    const EvaluationMode mode(context, std::accumulate(batches.begin(), batches.end(), std::int64_t{0}));
    context.hooks.call(hooks.start);
    context.hooks.call(hooks.epoch_start);
    SignalPolls signals(context, saves_state);
    MetricStore::Values values;
    for (std::size_t i = 0; i < loaders.size(); ++i) {
      context.progress.dataloader_idx = static_cast<int>(i);
      if (loaders.size() > 1) context.metrics.set_suffix("/dataloader_idx_" + std::to_string(i));
      const bool defined = run_loader(*loaders[i], batches[i], signals);
      // A rank without a sample does not call the step.
      if (context.parts.world.any_rank(!defined)) return std::nullopt;
      context.metrics.model_metrics().reduce(context.parts.world);
      reduce_epoch(values);
      if (i + 1 < loaders.size()) context.metrics.model_metrics().reset();
    }
    context.metrics.set_suffix("");  // hooks at the end log for all loaders
    context.hooks.call(hooks.epoch_end);
    reduce_epoch(values);
    context.metrics.model_metrics().reset();
    context.hooks.call(hooks.end);
    return values;
  }

  /// Reads the next batch of this rank. A rank whose stream has ended goes on without samples.
  bool next(DataLoader& loader, Batch& batch) const {
    const bool has_batch = context.batches.next(loader, batch);
    if (!loader.is_stream()) return has_batch;
    if (!has_batch) batch = {};
    return context.parts.world.any_rank(has_batch);
  }

  /// Returns false if the model does not define the step.
  bool run_loader(DataLoader& loader, std::int64_t of_loader, SignalPolls& signals) const {
    loader.start_epoch(0, 0, of_loader);
    context.progress.samples_on_every_rank = loader.samples_on_every_rank();
    const std::int64_t before = context.progress.batch_idx;
    Batch batch;
    std::int64_t batch_idx = 0;
    for (; next(loader, batch); ++batch_idx) {
      signals.before_batch();
      context.progress.batch_idx = before + batch_idx;
      context.progress.samples_per_batch = loader.global_size();
      const bool has_samples = batch.size > 0;  // or none is left for this rank in an uneven last batch
      const LogScope scope(context.metrics, hooks.step, batch.size);
      if (has_samples) context.hooks.call(hooks.batch_start, batch, batch_idx);
      try {
        step(batch, batch_idx);
      } catch (const StepNotDefined&) {
        return false;
      }
      if (has_samples) end_batch(batch, batch_idx);
    }
    context.progress.batch_idx = before + batch_idx;
    return true;
  }

  /// Adds what was logged since the last call to `values`, reduced over the ranks.
  void reduce_epoch(MetricStore::Values& values) const {
    const MetricStore::Values own =
        context.metrics.reduce_epoch(LogRule::Phase::evaluation, context.parts.world);
    values.insert(values.end(), own.begin(), own.end());
  }
};

}  // namespace

std::optional<MetricStore::Values> evaluate(TrainContext& context, EvaluationStage stage,
                                            std::span<const std::unique_ptr<DataLoader>> loaders,
                                            std::span<const std::int64_t> batches, bool saves_state) {
  const bool validates = stage == EvaluationStage::validate;
  const auto step = [&](const Batch& batch, std::int64_t batch_idx) {
    context.parts.strategy.evaluation_step(stage, batch, batch_idx);
  };
  const auto end_batch = [&](const Batch& batch, std::int64_t batch_idx) {
    context.hooks.call(validates ? hooks::on_validation_batch_end : hooks::on_test_batch_end, batch,
                       batch_idx);
  };
  return Evaluation{context, validates ? kValidation : kTest, loaders, batches, step, end_batch}.run(
      saves_state);
}

std::vector<Predictions> predict(TrainContext& context, std::span<const std::unique_ptr<DataLoader>> loaders,
                                 std::span<const std::int64_t> batches) {
  std::vector<Predictions> predictions(loaders.size());
  at::Tensor output;  // of the last call of predict_step
  const auto step = [&](const Batch& batch, std::int64_t batch_idx) {
    output = context.parts.strategy.predict_step(batch, batch_idx);
    if (batch.size == 0 || !output.defined()) return;
    Predictions& own = predictions[static_cast<std::size_t>(context.progress.dataloader_idx)];
    own.outputs.push_back(output.cpu());
    own.indices.insert(own.indices.end(), batch.indices.begin(), batch.indices.end());
  };
  const auto end_batch = [&](const Batch& batch, std::int64_t batch_idx) {
    // Undefined: another rank that reads these samples has the output, and runs the hook.
    if (!output.defined()) return;
    context.hooks.call(hooks::on_predict_batch_end, std::exchange(output, {}), batch, batch_idx);
  };
  const Evaluation evaluation{context, kPrediction, loaders, batches, step, end_batch};
  const bool defined = evaluation.run(/*saves_state=*/false).has_value();
  run_agreed(context.parts.world, [&] {
    if (!defined) throw StepNotDefined("predict", "predict_step");
  });
  const bool has_batches = std::ranges::any_of(batches, [](std::int64_t count) { return count > 0; });
  const bool has_outputs =
      std::ranges::any_of(predictions, [](const Predictions& each) { return !each.outputs.empty(); });
  if (has_batches && !context.parts.world.any_rank(has_outputs) && context.parts.world.is_root())
    log_warning("predict_step returned no tensor for any batch: the files of predictions have no samples");
  return predictions;
}

}  // namespace cxtrain
