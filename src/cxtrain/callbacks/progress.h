#pragma once

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/report/progress_bar.h"
#include "cxtrain/report/terminal.h"

namespace cxtrain {

/// The progress bar of a run (rank 0): one bar per training epoch, and one per evaluation of its own.
class ProgressCallback final : public Callback {
 public:
  /// `clock` outlives it. Draws on stderr, so that stdout stays for results. `launched`: an mpirun on this
  /// node started the process; where that has a terminal for its stderr, which this process sees as a pipe,
  /// it draws there.
  ProgressCallback(const Clock& clock, const RunView& run, bool launched);

  void on_sanity_check_start(RunView& run) override;
  void on_train_epoch_start(RunView& run) override;
  void on_train_batch_end(RunView& run, const at::Tensor& loss, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_validation_start(RunView& run) override;
  void on_validation_batch_end(RunView& run, const Batch&, std::int64_t batch_idx) override;
  void on_validation_end(RunView& run) override;
  void on_train_epoch_end(RunView& run) override;
  void on_test_start(RunView& run) override;
  void on_test_batch_end(RunView& run, const Batch& batch, std::int64_t batch_idx) override;
  void on_test_end(RunView& run) override;
  void on_predict_start(RunView& run) override;
  void on_predict_batch_end(RunView& run, const Batch& batch, std::int64_t batch_idx) override;
  void on_predict_end(RunView& run) override;

 private:
  const Clock& clock_;
  TerminalOutput output_;
  ProgressBar bar_;
  bool training_ = false;
  bool started_ = false;    ///< the epoch's bar waits for its first batch, which tells the samples
  double epoch_began_ = 0;  ///< on the clock
};

}  // namespace cxtrain
