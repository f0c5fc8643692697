#include "cxtrain/trainer/evaluation_loop.h"

namespace cxtrain {
namespace {

/// Evaluation mode while it lives; then each layer is back in the mode that it had, and so is the running
/// loop's view of itself.
class EvaluationMode {
 public:
  EvaluationMode(Run& run, std::int64_t batches)
      : run_(run), outer_(run.loop), modes_(run.parts.module.training_modes()) {
    run.parts.module.set_training(false);
    run.loop.num_batches = batches;
    run.loop.batch_idx = 0;
    run.loop.output.reset();
  }
  ~EvaluationMode() {
    run_.loop = std::move(outer_);
    run_.parts.module.set_training_modes(modes_);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Run& run_;
  Run::Loop outer_;
  std::vector<bool> modes_;
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

std::optional<MetricStore::Values> evaluate_stage(Run& run, const auto& hooks, DataLoader& loader,
                                                  std::int64_t batches) {
  const EvaluationMode mode(run, batches);
  run.call(hooks.start);
  run.call(hooks.epoch_start);
  loader.start_epoch(0, 0, batches);
  Batch batch;
  bool defined = true;
  while (defined && loader.next(batch)) {
    run.loop.batch_idx = loader.batch_idx();
    run.loop.samples_per_batch = loader.global_size();
    if (batch.size == 0) continue;  // none left for this rank in an uneven last batch
    run.transfer(batch);
    const LogScope scope(run.metrics, hooks.step, batch.size);
    run.call(hooks.batch_start, batch, loader.batch_idx());
    try {
      run.parts.strategy.evaluation_step(hooks.stage, batch, loader.batch_idx());
    } catch (const StepNotDefined&) {
      defined = false;
      break;
    }
    run.call(hooks.batch_end, batch, loader.batch_idx());
  }
  // A rank without a sample has not found out.
  if (run.parts.world.max(defined ? 0 : 1) != 0) return std::nullopt;
  run.call(hooks.epoch_end);
  MetricStore::Values values = run.metrics.reduce_epoch(LogRule::Phase::evaluation, run.parts.world);
  run.call(hooks.end);
  return values;
}

}  // namespace

std::optional<MetricStore::Values> evaluate(Run& run, EvaluationStage stage, DataLoader& loader,
                                            std::int64_t batches) {
  if (stage == EvaluationStage::validate) {
    const StageHooks validation{stage,
                                hooks::kValidationStep,
                                hooks::on_validation_start,
                                hooks::on_validation_epoch_start,
                                hooks::on_validation_batch_start,
                                hooks::on_validation_batch_end,
                                hooks::on_validation_epoch_end,
                                hooks::on_validation_end};
    return evaluate_stage(run, validation, loader, batches);
  }
  const StageHooks test{stage,
                        hooks::kTestStep,
                        hooks::on_test_start,
                        hooks::on_test_epoch_start,
                        hooks::on_test_batch_start,
                        hooks::on_test_batch_end,
                        hooks::on_test_epoch_end,
                        hooks::on_test_end};
  return evaluate_stage(run, test, loader, batches);
}

std::vector<at::Tensor> predict(Run& run, DataLoader& loader, std::int64_t batches) {
  const EvaluationMode mode(run, batches);
  run.call(hooks::on_predict_start);
  loader.start_epoch(0, 0, batches);
  std::vector<at::Tensor> outputs;
  Batch batch;
  while (loader.next(batch)) {
    run.loop.batch_idx = loader.batch_idx();
    run.loop.samples_per_batch = loader.global_size();
    if (batch.size == 0) continue;
    run.transfer(batch);
    run.call(hooks::on_predict_batch_start, batch, loader.batch_idx());
    {
      const LogScope scope(run.metrics, hooks::kPredictStep);
      run.loop.output = run.parts.strategy.predict_step(batch, loader.batch_idx());
    }
    outputs.push_back(run.loop.output.cpu());
    run.call(hooks::on_predict_batch_end, batch, loader.batch_idx());
  }
  run.call(hooks::on_predict_end);
  return outputs;
}

}  // namespace cxtrain
