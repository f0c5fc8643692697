#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cxtrain {

/// What a running training shows of itself to modules and callbacks, and the little that they may ask of it.
class RunView {
 public:
  virtual ~RunView() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual std::int64_t current_epoch() const = 0;
  virtual std::int64_t global_step() const = 0;        ///< optimizer steps done
  virtual std::int64_t batch_idx() const = 0;          ///< within the epoch, or the evaluation
  virtual std::int64_t num_batches() const = 0;        ///< of the epoch, or the evaluation, on this rank
  virtual std::int64_t max_epochs() const = 0;         ///< -1: no limit
  virtual std::int64_t samples_per_batch() const = 0;  ///< over all ranks
  virtual double elapsed_seconds() const = 0;          ///< of training, earlier runs of it included
  virtual bool sanity_checking() const = 0;

  /// The last value logged under this name: an epoch's mean where there is one. May synchronise with the
  /// device.
  virtual std::optional<double> metric(std::string_view name) const = 0;
  /// What was logged with `prog_bar`, in the order of first logging. May synchronise with the device.
  virtual std::vector<std::pair<std::string, double>> progress_bar_metrics() const = 0;
  virtual std::vector<double> learning_rates() const = 0;

  /// Passes a value to the metric loggers, for the current step.
  virtual void log(std::string_view name, double value) = 0;
  /// Element-wise sums over all ranks, in place. Every rank calls it at the same point with the same length.
  virtual void sum_over_ranks(std::span<double> values) = 0;
  /// Ends training after the current step; the ranks agree on it, so that one rank's wish is enough.
  virtual void request_stop(std::string reason) = 0;
};

}  // namespace cxtrain
