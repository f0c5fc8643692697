#include "cxtrain/callbacks/timer.h"

namespace cxtrain {

void Timer::on_train_batch_end(RunView& run, const at::Tensor&, const Batch&, std::int64_t) {
  if (run.elapsed_seconds() < max_seconds_) return;
  run.request_stop("max_time: " + std::to_string(static_cast<std::int64_t>(max_seconds_)) + " s are over");
}

}  // namespace cxtrain
