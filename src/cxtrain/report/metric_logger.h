#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace cxtrain {

class Filesystem;

/// Where a run writes.
struct RunFolder {
  Filesystem& files;
  std::string path;  ///< exists; empty: the run writes nothing
};

/// Where logged metrics go. Rank 0 only; called from the thread that runs the loop, off the step path.
/// Implementations throw Error naming the file when it cannot be written.
class MetricLogger {
 public:
  static constexpr std::string_view kKind = "logger";
  /// A logger's factory in the registry may ask for the folder of the run that it is made for.
  using Context = RunFolder;
  using Metric = std::pair<std::string, double>;

  virtual ~MetricLogger() = default;

  /// One row: what is known at this step. `step` is the global (optimizer) step, `epoch` counts from 0.
  virtual void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) = 0;
  /// Afterwards everything logged so far can be read by others.
  virtual void flush() = 0;
};

}  // namespace cxtrain
