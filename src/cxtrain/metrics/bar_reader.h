#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/metrics/async_scalars.h"
#include "cxtrain/metrics/metric_store.h"

namespace cxtrain {

/// Reads the metrics of a progress bar: the latest values of what was logged with prog_bar, in the order of
/// first logging.
class BarReader {
 public:
  /// Waits for values that are on a device.
  static MetricStore::Values read(const MetricStore& metrics);
  /// Does not wait. Of a value on a device, returns the newest number that has arrived, and leaves out a
  /// value of which none has arrived.
  MetricStore::Values read_arrived(const MetricStore& metrics);

 private:
  std::map<std::string, double, std::less<>> arrived_;
  std::vector<std::string> names_;      ///< of `coming_`
  std::optional<AsyncScalars> coming_;  ///< on their way
};

}  // namespace cxtrain
