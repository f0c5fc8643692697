#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/metrics/bar_reader.h"
#include "cxtrain/report/progress_bar.h"
#include "cxtrain/report/terminal.h"

namespace cxtrain {

/// The progress bar of a run: one bar per training epoch, and one per evaluation of its own. Rank 0 draws it,
/// on stderr, so that stdout stays for results. Where an mpirun on this node started the process and has a
/// terminal for its stderr, which this process sees as a pipe, it draws there.
class ProgressCallback final : public Callback {
 public:
  void setup(Run& run, Stage) override {
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

  void on_sanity_check_start(Run&) override { training_ = false; }
  /// A run that resumes within an epoch does not start the epoch again.
  void on_train_start(Run&) override { begin_epoch(); }
  void on_train_epoch_start(Run&) override { begin_epoch(); }
  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t batch_idx) override {
    if (!bar_) return;
    if (!started_) {
      bar_->start(epoch_label(run), run.progress().num_batches, run.progress().samples_per_batch, batch_idx,
                  epoch_began_);
    }
    started_ = true;
    bar_->update(batch_idx + 1);
  }
  /// Not at the end of the epoch: other callbacks and the model may log in that hook, too.
  void on_train_end(Run&) override { end_epoch(/*last=*/true); }

  void on_validation_start(Run& run) override { start_evaluation("Validation", run); }
  void on_validation_batch_end(Run&, const Batch&, std::int64_t batch) override { update_evaluation(batch); }
  void on_validation_end(Run&) override { end_evaluation(); }
  void on_test_start(Run& run) override { start_evaluation("Test", run); }
  void on_test_batch_end(Run&, const Batch&, std::int64_t batch) override { update_evaluation(batch); }
  void on_test_end(Run&) override { end_evaluation(); }
  void on_predict_start(Run& run) override { start_evaluation("Prediction", run); }
  void on_predict_batch_end(Run&, const at::Tensor&, const Batch&, std::int64_t batch) override {
    update_evaluation(batch);
  }
  void on_predict_end(Run&) override { end_evaluation(); }

 private:
  static std::string epoch_label(const Run& run) {
    std::string label = "Epoch " + std::to_string(run.current_epoch() + 1);
    if (run.progress().max_epochs >= 0) label += "/" + std::to_string(run.progress().max_epochs);
    return label;
  }

  void begin_epoch() {
    end_epoch(/*last=*/false);
    training_ = true;
    epoch_began_ = clock_.now();
  }
  void end_epoch(bool last) {
    if (started_) bar_->finish(last);
    started_ = false;
  }

  void start_evaluation(const char* label, const Run& run) {
    // A validation within training goes by without a bar of its own; its metrics appear in the epoch's.
    evaluating_ = bar_.has_value() && !training_ && !run.progress().sanity_checking;
    if (evaluating_) bar_->start(label, run.progress().num_batches);
  }
  void update_evaluation(std::int64_t batch_idx) {
    if (evaluating_) bar_->update(batch_idx + 1);
  }
  void end_evaluation() {
    if (evaluating_) bar_->finish();
    evaluating_ = false;
  }

  SteadyClock clock_;
  std::optional<TerminalOutput> output_;
  BarReader metrics_;
  std::optional<ProgressBar> bar_;  ///< rank 0's
  bool training_ = false;
  bool evaluating_ = false;  ///< with a bar of its own
  bool started_ = false;     ///< the epoch's bar waits for its first batch, which tells the samples
  double epoch_began_ = 0;   ///< on the clock
};

}  // namespace cxtrain
