#include "cxtrain/callbacks/wall_time.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/exchange.h"

namespace cxtrain {
namespace {

constexpr double kLeast = 10, kUnknown = 30;  // seconds
constexpr double kSaves = 3;

std::string whole_seconds(double seconds) {
  return std::to_string(static_cast<std::int64_t>(std::lround(seconds))) + " s";
}

}  // namespace

WallTime::WallTime(std::optional<double> seconds, const Clock& clock)
    : seconds_(seconds), clock_(clock), end_(clock.now() + seconds.value_or(0)) {}

void WallTime::on_train_start(Run& run) {
  last_look_ = clock_.now();
  // One is enough, and rank 0 is the one that says what has ended the run.
  const bool first_knows = broadcast_value(run.world(), seconds_.has_value());
  asks_ = seconds_ && (run.rank() == 0 || !first_knows);
  if (seconds_ && run.rank() == 0)
    log_info("the job's time ends in " + whole_seconds(*seconds_) + "; the training saves and ends before");
}

double WallTime::margin(const Run& run) const {
  const std::optional<double> save = run.saved_checkpoints().longest_seconds;
  const double wanted = save ? std::max(kLeast, kSaves * *save) : kUnknown;
  return std::min(wanted, std::max(*seconds_, 0.0) / 2);
}

void WallTime::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  if (!asks_) return;
  const double now = clock_.now();
  longest_step_ = std::max(longest_step_, now - std::exchange(last_look_, now));
  // The next look comes a step later.
  const int steps = run.progress().votes_within_step ? 2 : 1;
  if (now + steps * longest_step_ + margin(run) < end_) return;
  run.request_requeue("the end of the job's time, which is in " + whole_seconds(end_ - now) +
                      " (as Slurm says)");
}

}  // namespace cxtrain
