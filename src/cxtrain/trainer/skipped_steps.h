#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "cxtrain/metrics/async_scalars.h"

namespace cxtrain {

/// `max_skipped_steps`: counts the steps in a row that were skipped because a gradient was not finite. The
/// loss scale halves at each, so that a healthy training does not skip more than some twenty at a time.
class SkippedSteps {
 public:
  /// `most`: 0: nothing is counted. `device`: the scaler's.
  SkippedSteps(std::int64_t most, at::Device device);

  /// `found_inf` says whether a step is skipped (`GradScaler`). Returns whether too many in a row were: on a
  /// CPU this one among them; on another device one of the last steps, so that it is not waited for, but on
  /// all ranks at the same step.
  bool too_many(const at::Tensor& found_inf);

 private:
  std::int64_t most_, every_, steps_ = 0;
  std::int64_t skipped_ = 0;  ///< in a row, on a CPU
  at::Tensor on_device_;      ///< the same, on another device; float32 [1]
  std::optional<AsyncScalars> asked_;
};

}  // namespace cxtrain
