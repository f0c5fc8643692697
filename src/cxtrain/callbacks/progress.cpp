#include "cxtrain/callbacks/progress.h"

#include <string>

#include "cxtrain/config/plan.h"

namespace cxtrain {
namespace {

std::string epoch_label(const Run& run) {
  std::string label = "Epoch " + std::to_string(run.current_epoch() + 1);
  if (run.progress().max_epochs >= 0) label += "/" + std::to_string(run.progress().max_epochs);
  return label;
}

}  // namespace

void ProgressCallback::setup(Run& run, Stage) {
  if (run.rank() != 0) return;
  metrics_ = {};
  output_.emplace(/*launched=*/run.plan().launcher != "none");
  bar_.emplace(
      clock_, [this](std::string_view text) { output_->write(text); },
      [this, &run](bool last) {
        return last ? BarReader::read(run.metrics()) : metrics_.read_arrived(run.metrics());
      },
      ProgressBarOptions{.columns = [this] { return output_->columns(); }});
}

void ProgressCallback::on_sanity_check_start(Run&) { training_ = false; }

/// Where a resumed run goes on within an epoch, that does not start again.
void ProgressCallback::on_train_start(Run&) { begin_epoch(); }
void ProgressCallback::on_train_epoch_start(Run&) { begin_epoch(); }

void ProgressCallback::begin_epoch() {
  end_epoch(/*last=*/false);
  training_ = true;
  epoch_began_ = clock_.now();
}

void ProgressCallback::end_epoch(bool last) {
  if (started_) bar_->finish(last);
  started_ = false;
}

void ProgressCallback::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t batch_idx) {
  if (!bar_) return;
  if (!started_) {
    bar_->start(epoch_label(run), run.progress().num_batches, run.progress().samples_per_batch, batch_idx,
                epoch_began_);
  }
  started_ = true;
  bar_->update(batch_idx + 1);
}

/// Not at the end of the epoch: other callbacks and the model may log in that hook, too.
void ProgressCallback::on_train_end(Run&) { end_epoch(/*last=*/true); }

void ProgressCallback::start_evaluation(const char* label, const Run& run) {
  // A validation within training goes by without a bar of its own; its metrics appear in the epoch's.
  evaluating_ = bar_.has_value() && !training_ && !run.progress().sanity_checking;
  if (evaluating_) bar_->start(label, run.progress().num_batches);
}
void ProgressCallback::update_evaluation(std::int64_t batch_idx) {
  if (evaluating_) bar_->update(batch_idx + 1);
}
void ProgressCallback::end_evaluation() {
  if (evaluating_) bar_->finish();
  evaluating_ = false;
}

void ProgressCallback::on_validation_start(Run& run) { start_evaluation("Validation", run); }
void ProgressCallback::on_validation_batch_end(Run&, const Batch&, std::int64_t batch_idx) {
  update_evaluation(batch_idx);
}
void ProgressCallback::on_validation_end(Run&) { end_evaluation(); }
void ProgressCallback::on_test_start(Run& run) { start_evaluation("Test", run); }
void ProgressCallback::on_test_batch_end(Run&, const Batch&, std::int64_t batch_idx) {
  update_evaluation(batch_idx);
}
void ProgressCallback::on_test_end(Run&) { end_evaluation(); }
void ProgressCallback::on_predict_start(Run& run) { start_evaluation("Prediction", run); }
void ProgressCallback::on_predict_batch_end(Run&, const at::Tensor&, const Batch&, std::int64_t batch_idx) {
  update_evaluation(batch_idx);
}
void ProgressCallback::on_predict_end(Run&) { end_evaluation(); }

}  // namespace cxtrain
