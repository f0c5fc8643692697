#include "cxtrain/callbacks/learning_rate_monitor.h"

namespace cxtrain {

void LearningRateMonitor::on_train_batch_start(Run& run, const Batch&, std::int64_t) {
  const std::int64_t every = run.progress().log_every_n_steps;
  if (every <= 0 || (run.global_step() + 1) % every != 0) return;
  for (const OptimizerRef* const optimizer : run.optimizers()) {
    for (const LearningRate& rate : optimizer->learning_rates()) run.log("lr-" + rate.optimizer, rate.value);
  }
}

}  // namespace cxtrain
