#pragma once

#include <cstdint>

namespace cxtrain {

/// Where a training stands. The order of the data is a pure function of (seed, epoch, batch), and schedules
/// that follow no metric are one of (epoch, global_step).
struct TrainState {
  std::int64_t epoch = 0;        ///< epochs completed
  std::int64_t batch = 0;        ///< micro-batches done in the current epoch
  std::int64_t global_step = 0;  ///< optimizer steps done
  std::int64_t samples = 0;      ///< trained on, over all ranks
  bool validation_due = false;   ///< after the last batch: it was begun, and left for a signal
  std::uint64_t seed = 0;
};

}  // namespace cxtrain
