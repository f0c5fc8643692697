#include "cxtrain/callbacks/outside_requests.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/exchange.h"

namespace cxtrain {
namespace {

constexpr double kEvery = 2, kPatience = 60;  // seconds
constexpr const char *kSaveNow = "save-now", *kStopNow = "stop-now";

constexpr double kLeast = 10, kUnknown = 30;  // seconds
constexpr double kSaves = 3;

std::string whole_seconds(double seconds) {
  return std::to_string(static_cast<std::int64_t>(std::lround(seconds))) + " s";
}

}  // namespace

void FileRequests::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  if (run.rank() != 0 || run.log_dir().empty()) return;
  const double now = clock_.now();
  if (now < next_look_) return;
  next_look_ = now + kEvery;
  const bool waited = now >= asked_at_ + kPatience;  // a large one takes its time
  if (saved_before_request_ && waited && run.saved_checkpoints().count == *saved_before_request_) {
    log_warning(
        std::string(kSaveNow) +
        ": nothing has been saved; do callbacks of this run write checkpoints (enable_checkpointing)?");
  }
  if (waited) saved_before_request_.reset();
  if (take(run, kSaveNow)) {
    saved_before_request_ = run.saved_checkpoints().count;
    asked_at_ = now;
    run.request_save();
  }
  if (take(run, kStopNow)) {
    run.request_save();
    run.request_stop("stopped by the file " + std::string(kStopNow));
  }
}

/// Whether the file is there; it is gone afterwards.
bool FileRequests::take(const Run& run, const std::string& name) {
  if (cannot_look_ || cannot_remove_.contains(name)) return false;
  const std::string path = run.log_dir() + "/" + name;
  try {
    if (!files_.status(path)) return false;
  } catch (const FileError& error) {
    cannot_look_ = true;
    log_warning("files by which this run can be asked for something are not looked at any more: " +
                message_of(error));
    return false;
  }
  try {
    files_.remove(path);
  } catch (const FileError& error) {
    cannot_remove_.insert(name);
    log_warning("the file " + name + " is not looked at any more: " + message_of(error));
    return false;
  }
  log_info(name + ": carried out in epoch " + std::to_string(run.current_epoch()) + ", step " +
           std::to_string(run.global_step()));
  return true;
}

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
