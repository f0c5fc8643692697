#pragma once

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/report/progress_bar.h"

namespace cxtrain {

/// The progress bar of a run (rank 0): one bar per training epoch, and one per evaluation of its own.
class ProgressCallback final : public Callback {
 public:
  /// `clock` outlives it. Draws on stderr, so that stdout stays for results.
  ProgressCallback(const Clock& clock, const RunView& run);

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
  ProgressBar bar_;
  bool training_ = false;
  bool started_ = false;  ///< the epoch's bar waits for its first batch, which tells the samples
};

}  // namespace cxtrain
