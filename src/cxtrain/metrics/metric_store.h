#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/metrics/async_scalars.h"
#include "cxtrain/metrics/metric.h"
#include "cxtrain/metrics/metric_sink.h"
#include "cxtrain/metrics/model_metrics.h"
#include "cxtrain/state/state_dict.h"
#include "cxtrain/state/stateful.h"

namespace cxtrain {

/// What `log` does in one hook.
struct LogRule {
  enum class Phase { none, training, evaluation };
  enum class Allowed {
    both,     ///< on_step and on_epoch
    epoch,    ///< on_epoch only: the hook does not belong to a step
    nothing,  ///< an error: no row comes that the value could go to
    ignored,  ///< a warning, once: the same, but training is over, and an error would lose its result
  };
  const char* hook = "";
  Phase phase = Phase::none;
  Allowed allowed = Allowed::nothing;
  bool on_step = false;  ///< where the caller does not say; on_epoch is the opposite
};

/// Returns the sum of two values (`ReduceFx::sum`, and `mean`, whose values have their weights), the smaller
/// value (`min`) or the larger one (`max`); NaN if one is NaN, as on a device.
double combined(ReduceFx fx, double a, double b);

/// The last value of a metric, from the host or a tensor that may still be on its way from a device.
class MetricScalar {
 public:
  void set(double value) {
    host_ = value;
    if (device_.defined()) device_.reset();
  }
  void set(const at::Tensor& value) {
    host_ = 0;
    device_ = value;
  }
  double read() const { return device_.defined() ? device_.item<double>() : host_; }
  bool on_host() const { return !device_.defined(); }
  /// Whether `read` waits for a device.
  bool waits() const { return device_.defined() && !device_.is_cpu(); }
  /// As long as it is not on the host; else undefined.
  const at::Tensor& on_device() const { return device_; }

  void save(StateDict& state) const;
  void load(const StateDict& state);

 private:
  double host_ = 0;
  at::Tensor device_;  ///< undefined when `host_` holds the value
};

/// The values of a metric over an epoch, from both: a weighted sum for a mean, else a sum, minimum or
/// maximum.
struct MetricAccumulator {
  double host = 0;
  at::Tensor device;     ///< float64; undefined as long as no value came from a device
  bool on_host = false;  ///< whether `host` holds any value
  double weight = 0;

  void add(ReduceFx fx, double value, double samples);
  void add(ReduceFx fx, const at::Tensor& value, double samples);
  double read(ReduceFx fx) const;
  /// As if the other's values had been added here.
  void merge(ReduceFx fx, const MetricAccumulator& other);

  void save(StateDict& state) const;
  void load(const StateDict& state);
};

/// Keeps what modules and callbacks log: the last value of each metric for the loggers and the progress bar,
/// and what becomes of its values over an epoch. Logging a value costs a look-up by name and, on a GPU, an
/// asynchronous kernel; values are read on the host only when somebody looks at them.
///
/// A name that several hooks log is one metric for each hook; where only one value can be shown, the one that
/// changed last is.
class MetricStore final : public MetricSink, public Stateful {
 public:
  using Phase = LogRule::Phase;
  using Values = std::vector<std::pair<std::string, double>>;

  /// The rule of the running hook decides what becomes of a value. Outside of hooks `log` has no effect.
  /// Throws TrainingError where the rule forbids it.
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options) override;
  void log(std::string_view name, double value, const LogOptions& options) override;
  /// A metric logged on_epoch has the value that `reduce_epoch` finds. Throws TrainingError if the metric is
  /// none of `model_metrics`, if its value is not one number, or if it is logged on_step under two names.
  void log(std::string_view name, Metric& metric, const LogOptions& options) override;

  ModelMetrics& model_metrics() { return model_metrics_; }

  /// What the following calls of `log` belong to, and how many samples weigh in their means. `rule` (null:
  /// nothing may be logged) outlives its being in force.
  struct Scope {
    const LogRule* rule = nullptr;
    std::int64_t samples = 0;
  };
  Scope scope() const { return scope_; }
  void enter(Scope scope) { scope_ = scope; }

  /// Adds this text to the names of all that is logged from now on.
  void set_suffix(std::string suffix) { suffix_ = std::move(suffix); }

  /// Values that were logged on_step, on their way to the loggers.
  struct StepValues {
    struct Value {
      std::size_t entry = 0;  ///< its place in the store
      std::uint64_t at = 0;   ///< when it was logged
      double host = 0;        ///< of a value that the host knew
      bool sync_dist = false;
    };
    std::vector<Value> values;
    AsyncScalars from_devices;  ///< of those that it did not; in the order of `values`
  };
  /// Those of the training that were logged since the last call. Does not wait for the device.
  StepValues take_step_values();
  /// The values with their names. Those with sync_dist are reduced over the ranks: collective, the calls in
  /// the same order on all ranks. Waits for the device where it has not come to them yet.
  Values read(const StepValues& taken, World& world);

  /// Returns what was logged on_epoch in this phase since the last call, reduced over the epoch and all
  /// ranks. The model's metrics have been reduced (`ModelMetrics::reduce`). Collective; ranks may have logged
  /// different metrics.
  Values reduce_epoch(Phase phase, World& world);

  /// Forgets what was logged on_epoch in this phase since the last `reduce_epoch` (of a validation that is
  /// left).
  void forget_epoch(Phase phase);
  /// Forgets everything (after a sanity check).
  void clear() {
    entries_.clear();
    scope_ = {};
  }

  /// The latest value of this name.
  std::optional<double> last(std::string_view name) const;
  /// The same, and equal on all ranks: where the latest value is a rank's own, the mean of those that ranks
  /// have. Collective.
  std::optional<double> last_of_all_ranks(std::string_view name, World& world) const;

  /// Throws TrainingError: something follows a metric that nobody has logged. `follows`: "early stopping
  /// monitors `val_loss`"; the message names the logged metrics, too.
  [[noreturn]] void refuse_unlogged(const std::string& follows) const;

  /// The latest value of a name that was logged with prog_bar: a number, or a value that is on a device.
  struct BarValue {
    std::string name;
    std::uint64_t at = 0;  ///< when it was logged
    MetricScalar value;
  };
  /// In the order of first logging. Does not wait for a device.
  std::vector<BarValue> bar_values() const;
  /// The latest value of every metric, by name.
  std::map<std::string, double> all() const;
  /// The latest value on the host of every metric, by name. Leaves out values on a GPU, and does not wait for
  /// a device.
  std::map<std::string, double> all_on_host() const;

  std::string state_key() const override { return "metrics"; }
  void save(StateDict& state) const override;
  /// What rank `rank` of another number of ranks loads, where these are what ranks have saved: rank 0 takes
  /// over the sums of all of them.
  static StateDict for_other_ranks(std::span<const StateDict> saved, int rank);
  void load(const StateDict& state) override;
  bool differs_between_ranks() const override { return true; }  // each has its own share of the data

 private:
  struct Entry {
    std::string hook, name;
    std::string metric;  ///< the name of a model's metric that is logged; empty: values are
    Phase phase = Phase::none;
    bool on_step = false, on_epoch = false, prog_bar = false, logger = true, sync_dist = false;
    ReduceFx fx = ReduceFx::mean;
    bool fresh = false;            ///< logged since take_step_values
    bool stepped = false;          ///< `step` holds a value
    bool step_is_reduced = false;  ///< over the ranks
    MetricScalar step;             ///< the last value
    MetricAccumulator epoch;
    std::optional<double> reduced;            ///< of the last epoch
    std::uint64_t step_at = 0, epoch_at = 0;  ///< when they changed: a count of changes

    void save(StateDict& state) const;
    void load(const StateDict& state);
    /// Takes a value of a step, which the host knows or not. `at`: `step_at`.
    void set_step(const auto& value, std::uint64_t at) {
      step.set(value);
      stepped = fresh = true;
      step_is_reduced = false;
      step_at = at;
    }
    std::string step_name() const { return on_step && on_epoch ? name + "_step" : name; }
    std::string epoch_name() const { return on_step && on_epoch ? name + "_epoch" : name; }
  };
  /// The latest value of a name.
  struct Latest {
    const Entry* entry = nullptr;
    bool of_epoch = false;
    std::uint64_t at = 0;
  };

  template <class Value>
  void record(std::string_view name, const Value& value, const LogOptions& options);
  /// The entry of a logged name in the running hook; null where the rule ignores the name.
  Entry* find_or_create(std::string_view logged, const LogOptions& options);
  /// A metric that is logged for the first time in this hook under this name.
  void begin_metric(Entry& entry, const Metric& metric);
  double weight_of(const LogOptions& options) const;
  Entry& entry_of(std::string_view hook, std::string_view name);
  Latest latest(std::string_view name) const;
  template <class Visit>
  void visit_latest(Visit&& visit) const;
  template <class Wanted>
  std::vector<BarValue> newest(Wanted&& wanted) const;
  static std::map<std::string, double> by_name(const std::vector<BarValue>& values);

  ModelMetrics model_metrics_;
  std::vector<Entry> entries_;  // few: a linear search beats a map
  Scope scope_;
  std::string suffix_;
  std::uint64_t changes_ = 0;
  std::vector<std::string> warned_;  ///< hooks whose values are ignored
};

}  // namespace cxtrain
