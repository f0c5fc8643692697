#include "cxtrain/callbacks/progress.h"

#include <string>

namespace cxtrain {
namespace {

std::string epoch_label(const RunView& run) {
  std::string label = "Epoch " + std::to_string(run.current_epoch() + 1);
  if (run.max_epochs() >= 0) label += "/" + std::to_string(run.max_epochs());
  return label;
}

}  // namespace

ProgressCallback::ProgressCallback(const Clock& clock, const RunView& run, bool launched)
    : clock_(clock),
      output_(launched),
      bar_(
          clock, [this](std::string_view text) { output_.write(text); },
          [&run] { return run.progress_bar_metrics(); }, {.columns = [this] { return output_.columns(); }}) {}

void ProgressCallback::on_sanity_check_start(RunView&) { training_ = false; }

void ProgressCallback::on_train_epoch_start(RunView&) {
  training_ = true;
  started_ = false;
  epoch_began_ = clock_.now();
}

void ProgressCallback::on_train_batch_end(RunView& run, const at::Tensor&, const Batch&,
                                          std::int64_t batch_idx) {
  if (!started_) {
    bar_.start(epoch_label(run), run.num_batches(), run.samples_per_batch(), batch_idx, epoch_began_);
  }
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
