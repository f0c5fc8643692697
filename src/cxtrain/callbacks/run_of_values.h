#pragma once

#include <torch/nn/module.h>

#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/callbacks/run.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/metrics/metric_store.h"

namespace cxtrain {

/// A run without a training: set its values, call a hook, and look at the requests and the metrics.
///
///     cxtrain::RunOfValues values;
///     values.state.global_step = 10;
///     callback.on_train_batch_end(values.run, loss, batch, 0);
///     CHECK(values.requests.stop);
///
/// Values that `run.log` logs are in `metrics`, as in the hook `on_train_batch_end`.
struct RunOfValues {
  RunOfValues() : RunOfValues(own_world_) {}
  /// `world` outlives it. Tests of several ranks pass a world of their own.
  explicit RunOfValues(World& world)
      : run({world, module, plan, log_dir, real_filesystem(), nullptr, metrics, state, progress, requests,
             saved}) {
    metrics.enter({&kRule, /*samples=*/1});
  }
  RunOfValues(const RunOfValues&) = delete;
  RunOfValues& operator=(const RunOfValues&) = delete;

  torch::nn::Module module;
  Plan plan;
  std::string log_dir;
  TrainState state;
  Progress progress;
  MetricStore metrics;
  Requests requests;
  SavedCheckpoints saved;
  Run run;

 private:
  static constexpr LogRule kRule{"on_train_batch_end", LogRule::Phase::training, LogRule::Allowed::both,
                                 /*on_step=*/true};
  SoloWorld own_world_;
};

}  // namespace cxtrain
