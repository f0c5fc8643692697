#pragma once

#include <optional>
#include <string>

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/metrics/bar_reader.h"
#include "cxtrain/report/progress_bar.h"
#include "cxtrain/report/terminal.h"

namespace cxtrain {

/// The progress bar of a run: one bar per training epoch, and one per evaluation of its own. Rank 0 draws it,
/// on stderr, so that stdout stays for results. Where an mpirun on this node started the process and has a
/// terminal for its stderr, which this process sees as a pipe, it draws there.
class ProgressCallback final : public Callback {
 public:
  void setup(Run& run, Stage stage) override;
  void on_sanity_check_start(Run& run) override;
  void on_train_start(Run& run) override;
  void on_train_epoch_start(Run& run) override;
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_validation_start(Run& run) override;
  void on_validation_batch_end(Run& run, const Batch&, std::int64_t batch_idx) override;
  void on_validation_end(Run& run) override;
  void on_train_end(Run& run) override;
  void on_test_start(Run& run) override;
  void on_test_batch_end(Run& run, const Batch& batch, std::int64_t batch_idx) override;
  void on_test_end(Run& run) override;
  void on_predict_start(Run& run) override;
  void on_predict_batch_end(Run& run, const at::Tensor& output, const Batch& batch,
                            std::int64_t batch_idx) override;
  void on_predict_end(Run& run) override;

 private:
  void begin_epoch();
  void end_epoch(bool last);
  void start_evaluation(const char* label, const Run& run);
  void update_evaluation(std::int64_t batch_idx);
  void end_evaluation();

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
