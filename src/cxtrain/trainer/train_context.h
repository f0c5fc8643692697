#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/checkpointer.h"
#include "cxtrain/trainer/device_loader.h"
#include "cxtrain/trainer/generators.h"
#include "cxtrain/trainer/hooks.h"
#include "cxtrain/trainer/metric_rows.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/step_vote.h"
#include "cxtrain/trainer/train_state.h"
#include "cxtrain/trainer/training_clock.h"

namespace cxtrain {

/// While it lives, what is logged is treated by a hook's rule. Samples count as those of the surrounding
/// scope, or as one where a hook logs a value of its own, outside of any batch.
class LogScope {
 public:
  LogScope(MetricStore& metrics, const LogRule& rule)
      : LogScope(metrics, rule, metrics.scope().rule != nullptr ? metrics.scope().samples : 1) {}
  LogScope(MetricStore& metrics, const LogRule& rule, std::int64_t samples)
      : metrics_(metrics), outer_(metrics.scope()) {
    metrics.enter({&rule, samples});
  }
  ~LogScope() { metrics_.enter(outer_); }
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  MetricStore& metrics_;
  MetricStore::Scope outer_;
};

/// What was found out before training, in place of what the user or the model says.
struct Tuned {
  std::optional<double> lr;
  std::optional<std::int64_t> batch_size;  ///< per rank
};

/// What the loops of one run share: the parts, the training state, the metrics, and the hooks. Lives on one
/// thread.
class TrainContext final : public Run {
 public:
  struct Parts {
    World& world;
    const Options& options;
    const Plan& plan;
    Module& module;
    Strategy& strategy;
    at::Device device;
    Generators& generators;                     ///< this rank's
    std::optional<at::ScalarType> input_dtype;  ///< floating-point inputs are converted to it
    std::string log_dir = {};                   ///< empty: nothing is written
    Filesystem* files = nullptr;                ///< where it is
    const std::string* config_text = nullptr;   ///< config.yaml
  };
  explicit TrainContext(Parts parts);

  /// Calls the hooks of `callback`, which outlives the run, after those of the callbacks before it.
  void add_callback(Callback& callback) { callbacks.push_back(&callback); }
  /// The same with a callback that ends with the run.
  void add_callback(std::unique_ptr<Callback> callback) {
    add_callback(*callback);
    own_callbacks_.push_back(std::move(callback));
  }

  // Run
  int rank() const override { return parts.world.rank(); }
  int local_rank() const override { return parts.world.facts().local_rank; }
  int world_size() const override { return parts.world.size(); }
  torch::nn::Module& module() const override { return parts.module; }
  const Plan& plan() const override { return parts.plan; }
  const std::string& log_dir() const override { return parts.log_dir; }
  std::int64_t current_epoch() const override { return state.epoch; }
  std::int64_t global_step() const override { return state.global_step; }
  std::int64_t batch_idx() const override { return loop.batch_idx; }
  std::int64_t num_batches() const override { return loop.num_batches; }
  std::int64_t max_epochs() const override { return loop.max_epochs; }
  std::int64_t max_steps() const override { return loop.max_steps; }
  std::int64_t samples_per_batch() const override { return loop.samples_per_batch; }
  bool validates_at_epoch_end_only() const override { return loop.validates_at_epoch_end_only; }
  std::int64_t log_every_n_steps() const override { return parts.options.trainer.log_every_n_steps; }
  double elapsed_seconds() const override { return training_clock.seconds_since_start(); }
  bool sanity_checking() const override { return loop.sanity_checking; }
  const at::Tensor& step_output() const override { return loop.output; }
  std::optional<double> metric(std::string_view name) const override { return metrics.last(name); }
  std::optional<double> metric_of_all_ranks(std::string_view name) override {
    return metrics.last_of_all_ranks(name, parts.world);
  }
  std::vector<std::string> metric_names() const override;
  std::vector<std::pair<std::string, double>> progress_bar_metrics() const override {
    return metrics.progress_bar();
  }
  std::vector<std::pair<std::string, double>> progress_bar_metrics_so_far() override {
    return metrics.progress_bar_so_far();
  }
  std::vector<LearningRate> learning_rates() const override {
    return loop.learning_rates ? loop.learning_rates() : std::vector<LearningRate>{};
  }
  void log(std::string_view name, double value, const LogOptions& options = {}) override {
    metrics.log(name, value, options);
  }
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options = {}) override {
    metrics.log(name, value, options);
  }
  void sum_over_ranks(std::span<double> values) override { parts.world.sum(values); }
  void request_stop(std::string reason) override;
  void request_checkpoint() override { requests.checkpoint = true; }
  void request_requeue(std::string reason) override;
  void request_save() override { requests.save = true; }
  bool take_save_request() override { return std::exchange(save_agreed, false); }
  bool reserve_path(const std::string& path) override { return reserved_paths.insert(path).second; }
  void save_checkpoint(const StateDict& state_to_save, SaveRequest request) override;
  std::string of_rank_zero(std::string text) override { return parts.world.broadcast(std::move(text)); }
  std::vector<std::string> of_all_ranks(const std::string& text) override {
    return parts.world.all_gather(text);
  }
  std::vector<std::pair<std::string, std::string>> parameter_checksums() override;
  Filesystem& files() override { return *parts.files; }
  void checkpoint_saved(double seconds) override;
  std::int64_t checkpoints_saved() const override { return checkpoints_saved_; }
  std::optional<double> longest_save_seconds() const override { return longest_save_seconds_; }
  bool ends_with_checkpoint() const override { return loop.ends_with_checkpoint; }

  /// Runs a hook (`hooks::on_...`): of every callback, then of the module. What it logs is treated by its
  /// rule, with the weight of what surrounds it.
  template <class... C, class ModuleHook, class... Args>
  void call(const Hook<void (Callback::*)(Run&, C...), ModuleHook>& hook, const Args&... args) {
    const LogScope scope(metrics, hook.rule);
    for (Callback* const callback : callbacks) (callback->*hook.callback)(*this, args...);
    if constexpr (!std::is_null_pointer_v<ModuleHook>) (parts.module.*hook.module)(args...);
  }
  /// `on_train_epoch_end`: of the callbacks that do not monitor, and the module; then of those that do, once
  /// `between` has reduced the epoch's metrics.
  void call_train_epoch_end(const std::function<void()>& between);

  /// Throws `ending`, on all ranks, if a rank has a reason to leave at once: in a fit that saves its state
  /// later, SIGINT or SIGTERM; else any reason to end the run. Collective.
  void leave_if_asked();
  /// The exception by which all ranks leave a run that ends by `vote`. `saved`: its state can be loaded
  /// again.
  Interrupted ending(const StepVote& vote, bool saved) const;

  /// Seconds spent on training batches; of a run that does not train, all since the run began.
  double training_seconds() const;
  /// Stops the count of these seconds once the rank's devices are idle.
  void pause_training();
  /// Waits until the rank's devices are idle, so that a clock measures their work.
  void wait_for_devices() const;
  /// Of a training that is resumed: where it stands, the seconds that it has taken, and what it was tuned to.
  void save_place(StateDict& place) const;
  void load_place(const StateDict& place);
  /// As on the command line; a program's own model, which may have no name there, by its class.
  std::string model_name() const;
  /// Where the run is, for error messages: "epoch 1, step 230".
  std::string where() const;

  Parts parts;
  TrainState state;
  MetricStore metrics;
  std::vector<Callback*> callbacks;  ///< in the order in which their hooks are called; `add_callback` adds
  SteadyClock clock;
  TrainingClock training_clock{clock};
  MetricRows rows;
  DeviceLoader batches;
  Requests requests;                         ///< of this rank
  std::optional<Checkpointer> checkpointer;  ///< in a fit
  StepVoting voting;

  /// What the loop that runs at the moment shows of itself.
  struct Loop {
    std::int64_t samples_per_step = 0;  ///< of a full step, over all ranks and micro-batches
    std::int64_t accumulate = 1;        ///< micro-batches of a step
    std::int64_t batch_idx = 0, num_batches = 0, max_epochs = -1, max_steps = -1, samples_per_batch = 0;
    bool sanity_checking = false;
    bool saves_state = false;           ///< what ends the run waits for a place where it can be saved
    bool ends_with_checkpoint = false;  ///< the one that is being made
    bool validates_at_epoch_end_only = true;
    at::Tensor output;  ///< of the last step
    std::function<std::vector<LearningRate>()> learning_rates;
  };
  Loop loop;
  bool save_agreed = false;              ///< by all ranks; no callback has taken the save over
  std::set<std::string> reserved_paths;  ///< of the checkpoints of one step
  bool resumed = false;                  ///< `load_place` was called
  Tuned tuned;
  std::string data_fingerprint;  ///< of the training data, on rank 0; empty: there is none
  double first_step_seconds = 0;

 private:
  std::vector<std::unique_ptr<Callback>> own_callbacks_;
  std::int64_t checkpoints_saved_ = 0;
  std::optional<double> longest_save_seconds_;
};

}  // namespace cxtrain
