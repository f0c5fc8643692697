#pragma once

#include <cstdint>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/callbacks/spike_detector.h"
#include "cxtrain/config/field.h"

namespace cxtrain {

/// Looks whether the loss explodes: each rank at its own, so that the one is named whose samples it comes
/// from. Warns, or ends the run, which then goes on from a checkpoint of before. It does not go back by
/// itself: the same steps would come to the same loss.
class LossSpike final : public Callback {
 public:
  struct Args {
    SpikeDetector::Limits limits;
    std::int64_t every_n_train_steps = 1;  ///< on a GPU each look waits for the step
    bool stop = false;                     ///< ends the run with a TrainingError, instead of a warning

    void fields(auto&& field) {
      field("window", limits.window, "number of losses that define the usual range", Range::at_least(5));
      field("deviations", limits.deviations, "above the median, in usual spreads", Range::at_least(1));
      field("in_a_row", limits.in_a_row, "number of losses in a row; a single one may be an odd batch",
            Range::at_least(1));
      field("every_n_train_steps", every_n_train_steps, "look at the loss every N steps", Range::at_least(1));
      field("stop", stop, "end the run, instead of a warning");
    }
  };
  /// Throws ConfigError for arguments outside of their ranges.
  explicit LossSpike(const Args& args);

  void on_train_start(Run& run) override;
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  Args args_;
  SpikeDetector detector_;
};

}  // namespace cxtrain
