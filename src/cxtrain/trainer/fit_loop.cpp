#include "cxtrain/trainer/fit_loop.h"

#include <algorithm>

#include "cxtrain/base/log.h"
#include "cxtrain/base/process_clock.h"
#include "cxtrain/trainer/evaluation_loop.h"
#include "cxtrain/trainer/finite_check.h"

namespace cxtrain {

FitLoop::FitLoop(Run& run, FitData& data, Optimization& optimization)
    : run_(run), data_(data), optimization_(optimization) {
  run_.loop.max_epochs = limits().max_epochs;
}

void FitLoop::before_zero_grad() { run_.call(&Callback::on_before_zero_grad, &Module::on_before_zero_grad); }
void FitLoop::before_backward(const at::Tensor& loss) {
  run_.call(&Callback::on_before_backward, &Module::on_before_backward, loss);
}
void FitLoop::after_backward() { run_.call(&Callback::on_after_backward, &Module::on_after_backward); }

void FitLoop::run() {
  run_.parts.module.set_training(true);
  run_.call(&Callback::on_fit_start, &Module::on_fit_start);
  sanity_check();
  run_.start_clock();
  run_.call(&Callback::on_train_start, &Module::on_train_start);
  while (!done()) run_epoch();
  run_.call(&Callback::on_train_end, &Module::on_train_end);
  run_.call(&Callback::on_fit_end, &Module::on_fit_end);
}

/// A few validation batches before the first step find mistakes in validation_step before an epoch is spent.
void FitLoop::sanity_check() {
  if (data_.val() == nullptr || limits().sanity_batches == 0) return;
  run_.loop.sanity_checking = true;
  run_.call(&Callback::on_sanity_check_start);
  evaluate(run_, EvaluationStage::validate, *data_.val(), limits().sanity_batches);
  run_.call(&Callback::on_sanity_check_end);
  run_.loop.sanity_checking = false;
  run_.metrics = {};
}

bool FitLoop::done() const {
  const TrainState& state = run_.state;
  if (limits().max_steps >= 0 && state.global_step >= limits().max_steps) return true;
  if (limits().max_epochs >= 0 && state.epoch >= limits().max_epochs) return true;
  return stopping_ && state.epoch >= limits().min_epochs && state.global_step >= limits().min_steps;
}

void FitLoop::run_epoch() {
  TrainState& state = run_.state;
  data_.prepare_epoch(state.epoch);
  run_.loop.num_batches = limits().train_batches;
  run_.call(&Callback::on_train_epoch_start, &Module::on_train_epoch_start);
  data_.train().start_epoch(state.epoch, state.batch, limits().train_batches);
  Batch batch;
  while (!done() && data_.train().next(batch)) {
    run_batch(batch);
    batch.tensors.clear();  // the next one may take the same memory, which is still in the caches
    if (validation_due()) validate();
  }
  const bool complete = state.batch >= limits().train_batches;
  run_.metrics.begin_batch(MetricStore::Phase::training, 1);
  run_.call_train_epoch_end();
  const auto means =
      run_.metrics.reduce_epoch(MetricStore::Phase::training, run_.parts.world, run_.parts.strategy);
  run_.log_row(means);
  if (!complete) return;  // stopped within the epoch, which a resumed run would go on with
  ++state.epoch;
  state.batch = 0;
  optimization_.end_epoch();
  agree_on_stopping();
}

MicroStep FitLoop::micro_step(const Batch& batch) {
  const std::int64_t idx = run_.state.batch;
  const std::int64_t begin = idx / limits().accumulate * limits().accumulate;
  // The last step of an epoch may have fewer micro-batches; each then weighs more.
  const std::int64_t micro_batches = std::min(limits().accumulate, limits().train_batches - begin);
  // On uneven shards a rank's mean counts by its samples, so that the average over ranks is the global mean.
  const auto share = static_cast<double>(data_.train().global_size()) / data_.train().shard().count;
  const double weight = static_cast<double>(batch.size) / share / static_cast<double>(micro_batches);
  return {.batch = batch,
          .batch_idx = idx,
          .first = idx == begin,
          .last = idx == begin + micro_batches - 1,
          .loss_weight = weight,
          .scaler = optimization_.scaler(),
          .observer = *this};
}

/// Of the last batch. Without the distributed sampler every rank reads the whole of it.
std::int64_t FitLoop::samples_over_ranks() {
  const int readers = run_.parts.strategy.data_shard().count / data_.train().shard().count;
  return data_.train().global_size() * readers;
}

void FitLoop::run_batch(Batch& batch) {
  TrainState& state = run_.state;
  run_.transfer(batch);
  run_.loop.batch_idx = state.batch;
  run_.loop.samples_per_batch = samples_over_ranks();
  run_.metrics.begin_batch(MetricStore::Phase::training, batch.size);
  const std::int64_t idx = state.batch;
  run_.call(&Callback::on_train_batch_start, &Module::on_train_batch_start, batch, idx);

  const MicroStep step = micro_step(batch);
  Strategy& strategy = run_.parts.strategy;
  at::Tensor loss = strategy.training_step(step);
  const bool stay_finite = run_.parts.options.trainer.terminate_on_nan;
  if (stay_finite) require_finite_loss(loss);
  ++state.batch;
  ++state.micro_batch;
  state.samples += samples_over_ranks();
  if (step.last) {
    optimization_.step([&] { return strategy.training_step(step); });
    if (stay_finite) require_finite_parameters(run_.parts.module);
    state.micro_batch = 0;
    if (run_.first_step_seconds == 0) run_.first_step_seconds = seconds_since_process_start();
  }
  run_.call(&Callback::on_train_batch_end, &Module::on_train_batch_end, loss, batch, idx);
  if (step.last) after_step();
}

void FitLoop::after_step() {
  if (limits().log_every > 0 && run_.state.global_step % limits().log_every == 0) {
    run_.log_row(run_.metrics.take_step_values());
  }
  agree_on_stopping();
}

void FitLoop::agree_on_stopping() {
  if (stopping_) return;
  stopping_ = run_.parts.world.max(run_.stop_requested ? 1 : 0) != 0;
  if (stopping_ && run_.stop_requested && !run_.stop_reason.empty()) log_info(run_.stop_reason);
}

bool FitLoop::validation_due() const {
  if (data_.val() == nullptr || limits().val_batches == 0 || limits().val_every_batches == 0) return false;
  const TrainState& state = run_.state;
  if (limits().val_counts_across_epochs) {
    return (state.epoch * limits().train_batches + state.batch) % limits().val_every_batches == 0;
  }
  return (state.epoch + 1) % limits().val_every_epochs == 0 && state.batch % limits().val_every_batches == 0;
}

void FitLoop::validate() {
  run_.log_row(evaluate(run_, EvaluationStage::validate, *data_.val(), limits().val_batches));
  agree_on_stopping();
}

}  // namespace cxtrain
