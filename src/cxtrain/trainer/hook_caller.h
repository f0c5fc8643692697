#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "cxtrain/base/phase_clock.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/callbacks/run.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/trainer/hooks.h"
#include "cxtrain/trainer/module.h"

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

/// Calls the hooks of a run: of every callback, in the order of `add`, then of the module.
class HookCaller {
 public:
  /// All references outlive the object.
  HookCaller(Run& run, Module& module, MetricStore& metrics)
      : run_(run), module_(module), metrics_(metrics) {}

  /// Adds a callback that outlives the object.
  void add(Callback& callback) { callbacks_.push_back(&callback); }
  /// Adds a callback that ends with the object.
  void add(std::unique_ptr<Callback> callback) {
    add(*callback);
    own_.push_back(std::move(callback));
  }
  const std::vector<Callback*>& callbacks() const { return callbacks_; }

  /// Runs a hook (`hooks::on_...`). What the hook logs is treated by its rule, with the weight of what
  /// surrounds it.
  template <class... C, class ModuleHook, class... Args>
  void call(const Hook<void (Callback::*)(Run&, C...), ModuleHook>& hook, Args&&... args) {
    const PhaseScope phase(Phase::hooks);
    const LogScope scope(metrics_, hook.rule);
    for (Callback* const callback : callbacks_) (callback->*hook.callback)(run_, args...);
    if constexpr (!std::is_null_pointer_v<ModuleHook>) (module_.*hook.module)(args...);
  }
  /// Reduces the epoch's metrics over the ranks, runs `on_train_epoch_end` of the module and of the callbacks
  /// that do not monitor, and reduces what these hooks have logged. Then resets the model's metrics, and runs
  /// the hook of the callbacks that monitor. Returns the metrics. Collective.
  MetricStore::Values end_train_epoch();
  /// Runs `on_exception` of the callbacks.
  void report(const std::exception& error) noexcept;

 private:
  Run& run_;
  Module& module_;
  MetricStore& metrics_;
  std::vector<Callback*> callbacks_;
  std::vector<std::unique_ptr<Callback>> own_;
};

}  // namespace cxtrain
