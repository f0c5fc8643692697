#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace cxtrain {

class Filesystem;
class StateDict;

/// Where a run writes.
struct RunFolder {
  Filesystem& files;
  std::string path;  ///< exists; empty: there is none
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

  /// What `on_load_checkpoint` needs to find the place again, such as how many rows there are. Called between
  /// two steps, when everything logged so far is flushed.
  virtual void on_save_checkpoint(StateDict& /*state*/) {}
  /// Goes back to the rows that there were when `state` was saved, so that the resumed training repeats none
  /// and leaves none out. Called before the first row. `from`: the folder of the run that saved it, which is
  /// this run's own where it goes on in place; else its rows are copied. Rows that are missing are no reason
  /// to throw. A logger that keeps nothing goes on where its file ends.
  virtual void on_load_checkpoint(const StateDict& /*state*/, const RunFolder& /*from*/) {}
  /// The name under which that is kept: the class's, unless there is more to tell.
  virtual std::string state_key() const;
};

}  // namespace cxtrain
