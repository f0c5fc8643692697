#include "cxtrain/callbacks/timer.h"

#include <utility>

#include "cxtrain/config/fields.h"

namespace cxtrain {

Timer::Timer(const Args& args) : max_seconds_(static_cast<double>(args.seconds)) { require_fields(args); }

void Timer::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  elapsed_ = before_ + clock_.now() - began_;
  if (elapsed_ < max_seconds_ || std::exchange(asked_, true)) return;
  run.request_save();  // so that a later run may go on with more time
  run.request_stop("max_time: " + std::to_string(static_cast<std::int64_t>(max_seconds_)) + " s are over");
}

}  // namespace cxtrain
