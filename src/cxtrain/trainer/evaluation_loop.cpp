#include "cxtrain/trainer/evaluation_loop.h"

namespace cxtrain {
namespace {

/// Evaluation mode while it lives; the running loop's view of itself is put back as well.
class EvaluationMode {
 public:
  EvaluationMode(Run& run, std::int64_t batches)
      : run_(run), outer_(run.loop), was_training_(run.parts.module.is_training()) {
    run.parts.module.set_training(false);
    run.loop.num_batches = batches;
    run.loop.batch_idx = 0;
  }
  ~EvaluationMode() {
    run_.loop = std::move(outer_);
    run_.metrics.begin_batch(MetricStore::Phase::none, 0);
    run_.parts.module.set_training(was_training_);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Run& run_;
  Run::Loop outer_;
  bool was_training_;
};

}  // namespace

MetricStore::Values evaluate(Run& run, EvaluationStage stage, DataLoader& loader, std::int64_t batches) {
  const bool validate = stage == EvaluationStage::validate;
  const EvaluationMode mode(run, batches);
  if (validate) {
    run.call(&Callback::on_validation_start, &Module::on_validation_start);
    run.call(&Callback::on_validation_epoch_start, &Module::on_validation_epoch_start);
  } else {
    run.call(&Callback::on_test_start, &Module::on_test_start);
  }

  loader.start_epoch(0, 0, batches);
  Batch batch;
  while (loader.next(batch)) {
    run.loop.batch_idx = loader.batch_idx();
    run.loop.samples_per_batch = loader.global_size();
    if (batch.size == 0) continue;  // none left for this rank in an uneven last batch
    run.transfer(batch);
    run.metrics.begin_batch(MetricStore::Phase::evaluation, batch.size);
    if (validate)
      run.call(&Callback::on_validation_batch_start, &Module::on_validation_batch_start, batch,
               loader.batch_idx());
    run.parts.strategy.evaluation_step(stage, batch, loader.batch_idx());
    if (validate) {
      run.call(&Callback::on_validation_batch_end, &Module::on_validation_batch_end, batch,
               loader.batch_idx());
    } else {
      run.call(&Callback::on_test_batch_end, batch, loader.batch_idx());
    }
  }
  // What the module logs at the end of an epoch is the epoch's own value: it weighs as one sample.
  run.metrics.begin_batch(MetricStore::Phase::evaluation, 1);
  if (validate) {
    run.call(&Callback::on_validation_epoch_end, &Module::on_validation_epoch_end);
  } else {
    run.call(&Callback::on_test_epoch_end, &Module::on_test_epoch_end);
  }
  MetricStore::Values means =
      run.metrics.reduce_epoch(MetricStore::Phase::evaluation, run.parts.world, run.parts.strategy);
  if (validate) {
    run.call(&Callback::on_validation_end, &Module::on_validation_end);
  } else {
    run.call(&Callback::on_test_end, &Module::on_test_end);
  }
  return means;
}

std::vector<at::Tensor> predict(Run& run, DataLoader& loader, std::int64_t batches) {
  const EvaluationMode mode(run, batches);
  run.call(&Callback::on_predict_start, &Module::on_predict_start);
  loader.start_epoch(0, 0, batches);
  std::vector<at::Tensor> outputs;
  Batch batch;
  while (loader.next(batch)) {
    run.loop.batch_idx = loader.batch_idx();
    run.loop.samples_per_batch = loader.global_size();
    if (batch.size == 0) continue;
    run.transfer(batch);
    outputs.push_back(run.parts.strategy.predict_step(batch, loader.batch_idx()).cpu());
    run.call(&Callback::on_predict_batch_end, batch, loader.batch_idx());
  }
  run.call(&Callback::on_predict_end, &Module::on_predict_end);
  return outputs;
}

}  // namespace cxtrain
