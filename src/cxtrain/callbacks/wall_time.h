#pragma once

#include <optional>

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/callback.h"

namespace cxtrain {

/// Ends a run, with its state saved and status 75, before the batch system ends the job. It leaves as much
/// time as the slowest save so far has taken three times, and at least 10 s; 30 s before the first save; but
/// never more than half of what there was at the beginning. The first rank whose time is up decides for all.
class WallTime final : public Callback {
 public:
  /// `seconds`: from now to the end of the job; absent: it has none. `clock`: a steady one; it outlives this.
  WallTime(std::optional<double> seconds, const Clock& clock);

  void on_train_start(Run& run) override;
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  double margin(const Run& run) const;

  std::optional<double> seconds_;
  const Clock& clock_;
  double end_ = 0;
  double last_look_ = 0, longest_step_ = 0;  ///< a step and what comes between two, validations among it
  bool asks_ = false;                        ///< this rank does, when it is time
};

}  // namespace cxtrain
