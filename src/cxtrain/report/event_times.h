#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

/// When a row of metrics was logged. TensorBoard's files have it, and no other file of a run.
struct EventTime {
  std::int64_t step = 0;
  double seconds = 0;  ///< since 1970
  bool first = false;  ///< in its file: a resumed training begins a new one
};

/// Calls `take` for each event of a run's TensorBoard files, in the order of their names. What cannot be read
/// is as if it were not there; checksums are not looked at.
void read_event_times(Filesystem& files, const std::string& run,
                      const std::function<void(const EventTime&)>& take);

}  // namespace cxtrain
