#pragma once

#include <cstdint>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/callbacks/spike_detector.h"

namespace cxtrain {

/// Looks whether the loss explodes: each rank at its own, so that the one is named whose samples it comes
/// from. Warns, or ends the run, which then goes on from a checkpoint of before. It does not go back by
/// itself: the same steps would come to the same loss.
class LossSpike final : public Callback {
 public:
  struct Options {
    SpikeDetector::Limits limits;
    std::int64_t every_n_train_steps = 1;  ///< on a GPU each look waits for the step
    bool stop = false;                     ///< ends the run with a TrainingError, instead of a warning
  };
  explicit LossSpike(const Options& options) : options_(options), detector_(options.limits) {}

  void on_train_start(RunView& run) override;
  void on_train_batch_end(RunView& run, const at::Tensor& loss, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  Options options_;
  SpikeDetector detector_;
  std::int64_t last_step_ = 0;
};

}  // namespace cxtrain
