#include "cxtrain/callbacks/file_requests.h"

#include "cxtrain/base/log.h"

namespace cxtrain {
namespace {

constexpr double kEvery = 2, kPatience = 60;  // seconds
constexpr const char *kSaveNow = "save-now", *kStopNow = "stop-now";

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

}  // namespace cxtrain
