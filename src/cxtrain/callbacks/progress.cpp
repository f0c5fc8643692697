#include "cxtrain/callbacks/progress.h"

#include <unistd.h>

#include <string>

#include "cxtrain/report/terminal.h"

namespace cxtrain {
namespace {

void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string epoch_label(const RunView& run) {
  std::string label = "Epoch " + std::to_string(run.current_epoch() + 1);
  if (run.max_epochs() >= 0) label += "/" + std::to_string(run.max_epochs());
  return label;
}

}  // namespace

ProgressCallback::ProgressCallback(const Clock& clock, const RunView& run)
    : bar_(clock, write_to_stderr, [&run] { return run.progress_bar_metrics(); },
           {.columns = [] { return terminal_columns(STDERR_FILENO); }}) {}

void ProgressCallback::on_sanity_check_start(RunView&) { training_ = false; }

void ProgressCallback::on_train_epoch_start(RunView&) {
  training_ = true;
  started_ = false;
}

void ProgressCallback::on_train_batch_end(RunView& run, const at::Tensor&, const Batch&,
                                          std::int64_t batch_idx) {
  if (!started_) bar_.start(epoch_label(run), run.num_batches(), run.samples_per_batch(), batch_idx);
  started_ = true;
  bar_.update(batch_idx + 1);
}

// A validation within training goes by without a bar of its own; its metrics appear in the epoch's.
void ProgressCallback::on_validation_start(RunView& run) {
  if (!training_ && !run.sanity_checking()) bar_.start("Validation", run.num_batches());
}
void ProgressCallback::on_validation_batch_end(RunView& run, const Batch&, std::int64_t batch_idx) {
  if (!training_ && !run.sanity_checking()) bar_.update(batch_idx + 1);
}
void ProgressCallback::on_validation_end(RunView& run) {
  if (!training_ && !run.sanity_checking()) bar_.finish();
}

void ProgressCallback::on_train_epoch_end(RunView&) {
  if (started_) bar_.finish();
  started_ = false;
}

void ProgressCallback::on_test_start(RunView& run) { bar_.start("Test", run.num_batches()); }
void ProgressCallback::on_test_batch_end(RunView&, const Batch&, std::int64_t batch_idx) {
  bar_.update(batch_idx + 1);
}
void ProgressCallback::on_test_end(RunView&) { bar_.finish(); }
void ProgressCallback::on_predict_start(RunView& run) { bar_.start("Prediction", run.num_batches()); }
void ProgressCallback::on_predict_batch_end(RunView&, const Batch&, std::int64_t batch_idx) {
  bar_.update(batch_idx + 1);
}
void ProgressCallback::on_predict_end(RunView&) { bar_.finish(); }

}  // namespace cxtrain
