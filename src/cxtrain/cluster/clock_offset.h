#pragma once

#include "cxtrain/cluster/world.h"

namespace cxtrain {

struct ClockOffset {
  double seconds = 0;  ///< by which this rank's time of day is ahead of rank 0's
  double error = 0;    ///< seconds by which that may be wrong
};
/// Compares the times of day of this rank and of rank 0, over the duration of some barriers. Collective.
ClockOffset clock_offset(World& world);

}  // namespace cxtrain
