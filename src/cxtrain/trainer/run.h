#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/report/metric_logger.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/metric_store.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/train_state.h"

namespace cxtrain {

/// What the loops of one run share: the parts, the training state, the metrics, and the hooks. Lives on one
/// thread.
class Run final : public RunView {
 public:
  struct Parts {
    World& world;
    const Options& options;
    Module& module;
    Strategy& strategy;
    at::Device device;
    std::optional<at::ScalarType> input_dtype;  ///< floating-point inputs are converted to it
  };
  explicit Run(Parts parts);

  // RunView
  int rank() const override { return parts.world.rank(); }
  int world_size() const override { return parts.world.size(); }
  std::int64_t current_epoch() const override { return state.epoch; }
  std::int64_t global_step() const override { return state.global_step; }
  std::int64_t batch_idx() const override { return loop.batch_idx; }
  std::int64_t num_batches() const override { return loop.num_batches; }
  std::int64_t max_epochs() const override { return loop.max_epochs; }
  std::int64_t samples_per_batch() const override { return loop.samples_per_batch; }
  double elapsed_seconds() const override { return state.elapsed_seconds + (clock.now() - started_); }
  bool sanity_checking() const override { return loop.sanity_checking; }
  std::optional<double> metric(std::string_view name) const override { return metrics.last(name); }
  std::vector<std::pair<std::string, double>> progress_bar_metrics() const override {
    return metrics.progress_bar();
  }
  std::vector<double> learning_rates() const override {
    return loop.learning_rates ? loop.learning_rates() : std::vector<double>{};
  }
  void log(std::string_view name, double value) override;
  void sum_over_ranks(std::span<double> values) override { parts.world.sum(values); }
  void request_stop(std::string reason) override;

  /// Runs a hook: of every callback, then of the module.
  template <class... C, class... M, class... Args>
  void call(void (Callback::*callback_hook)(RunView&, C...), void (Module::*module_hook)(M...),
            const Args&... args) {
    call(callback_hook, args...);
    (parts.module.*module_hook)(args...);
  }
  template <class... C, class... Args>
  void call(void (Callback::*callback_hook)(RunView&, C...), const Args&... args) {
    for (const auto& callback : callbacks) (callback.get()->*callback_hook)(*this, args...);
  }
  /// `on_train_epoch_end`: callbacks that monitor come after the module.
  void call_train_epoch_end();

  /// To the metric loggers (rank 0) as a row of the current step. `step` counts from 0, like Lightning's.
  void log_row(std::span<const MetricLogger::Metric> row);

  /// Moves a batch to this rank's device and input dtype, in place; a no-op for float32 on the CPU.
  void transfer(Batch& batch) const;

  void start_clock() { started_ = clock.now(); }
  /// Where the run is, for error messages: "epoch 1, step 230".
  std::string where() const;

  Parts parts;
  TrainState state;
  MetricStore metrics;
  std::vector<std::unique_ptr<Callback>> callbacks;
  std::vector<std::unique_ptr<MetricLogger>> loggers;
  SteadyClock clock;

  /// What the loop that runs at the moment shows of itself.
  struct Loop {
    std::int64_t batch_idx = 0, num_batches = 0, max_epochs = -1, samples_per_batch = 0;
    bool sanity_checking = false;
    std::function<std::vector<double>()> learning_rates;
  };
  Loop loop;
  std::string stop_reason;  ///< set on the rank that asks; the ranks agree after each step
  bool stop_requested = false;
  double first_step_seconds = 0;

 private:
  std::vector<MetricLogger::Metric> pending_;  ///< logged by callbacks, to go with the next row
  double started_ = 0;
};

}  // namespace cxtrain
