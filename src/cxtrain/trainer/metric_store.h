#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/strategy/metric_sink.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// Keeps what modules log: the last value of each metric for the loggers and the progress bar, and the
/// sample-weighted mean over an epoch. Logging a value costs a look-up by name and, on a GPU, an asynchronous
/// kernel; values are read on the host only when somebody looks at them.
class MetricStore final : public MetricSink {
 public:
  enum class Phase { none, training, evaluation };
  using Values = std::vector<std::pair<std::string, double>>;

  void log(std::string_view name, const at::Tensor& value, const LogOptions& options) override;
  void log(std::string_view name, double value, const LogOptions& options) override;

  /// What the following calls of `log` belong to, and how many samples weigh in the means.
  void begin_batch(Phase phase, std::int64_t samples);

  /// Values logged on_step since the last call, for the loggers.
  Values take_step_values();

  /// Means over all samples on all ranks since the last call, of the metrics logged in this phase with
  /// on_epoch. Collective; ranks may have logged different metrics.
  Values reduce_epoch(Phase phase, World& world, Strategy& strategy);

  /// Forgets this phase's epoch sums (after a sanity check).
  void discard_epoch(Phase phase);

  std::optional<double> last(std::string_view name) const;
  Values progress_bar() const;
  /// The last value of every metric, by name.
  std::map<std::string, double> all() const;
  /// Notes a value that did not come from a module (a callback's).
  void set(std::string_view name, double value);

 private:
  /// A scalar that may still be on its way from the device.
  struct Scalar {
    double host = 0;
    at::Tensor device;  ///< undefined when `host` holds the value
    double read() const;
  };
  struct Entry {
    std::string name;
    Phase phase = Phase::none;
    bool on_step = false, on_epoch = false, prog_bar = false, logger = true;
    bool fresh = false;          ///< logged since take_step_values
    Scalar step;                 ///< the last value
    Scalar sum;                  ///< values times samples
    double weight = 0;           ///< samples
    std::optional<double> mean;  ///< of the last epoch
  };

  Entry& entry(std::string_view name, const LogOptions& options);
  static std::string step_name(const Entry& entry);
  static std::string epoch_name(const Entry& entry);

  std::vector<Entry> entries_;  // few: a linear search beats a map
  Phase phase_ = Phase::none;
  std::int64_t samples_ = 0;
};

}  // namespace cxtrain
