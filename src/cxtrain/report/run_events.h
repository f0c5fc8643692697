#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/run_event.h"

namespace cxtrain {

struct RunEventsRead {
  bool found = false;        ///< the rank has an events file, which may be read
  std::int64_t damaged = 0;  ///< lines that are no events
  bool in_parts = false;     ///< the file is larger than was to be read
};

/// Calls `take` for each event of a rank, in the order of its events file in the folder of a run. Of a file
/// of more than `most_bytes`, only its end is read. Throws FileError.
RunEventsRead read_run_events(Filesystem& files, const std::string& run, int rank, std::uint64_t most_bytes,
                              const std::function<void(const RunEvent&)>& take);

/// Returns the event as a line of the log: "2026-11-24 10:00:00.000000 rank 0 warning: ...", in local time.
std::string line_of(const RunEvent& event);

}  // namespace cxtrain
