#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>
#include <string_view>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/callbacks/run.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/report/image.h"

namespace cxtrain {

/// Keeps the latest image (uint8 [C, H, W], as loggers get it) and text of each name.
struct KeptByName final : RunLoggers {
  void log_image(std::string_view name, const at::Tensor& image) override {
    images.insert_or_assign(std::string(name),
                            image_bytes("log_image(\"" + std::string(name) + "\")", image));
  }
  void log_text(std::string_view name, std::string_view text) override {
    texts.insert_or_assign(std::string(name), std::string(text));
  }
  std::map<std::string, at::Tensor> images;
  std::map<std::string, std::string> texts;
};

/// A run without a training: set its values, call a hook, and look at the requests and the metrics.
///
///     cxtrain::RunOfValues values;
///     values.state.global_step = 10;
///     callback.on_train_batch_end(values.run, loss, batch, 0);
///     CHECK(values.requests.stop);
///
/// A hook that asks for its model (`run.module<MyModel>()`) gets the model that the constructor takes:
///
///     MyModel model;
///     cxtrain::RunOfValues values(model);
///
/// Values that `run.log` logs are in `metrics`, as in the hook `on_train_batch_end`. Images and texts are in
/// `loggers.images` and `loggers.texts`.
struct RunOfValues {
  RunOfValues() : RunOfValues(own_world_) {}
  /// `world` outlives it. Tests of several ranks pass a world of their own.
  explicit RunOfValues(World& world) : RunOfValues(world, own_module_) {}
  /// `module` outlives it.
  explicit RunOfValues(torch::nn::Module& module) : RunOfValues(own_world_, module) {}
  RunOfValues(World& world, torch::nn::Module& module)
      : run({world, module, plan, log_dir, real_filesystem(), nullptr, metrics, loggers, state, progress,
             requests, saved}) {
    metrics.enter({&kRule, /*samples=*/1});
  }
  RunOfValues(const RunOfValues&) = delete;
  RunOfValues& operator=(const RunOfValues&) = delete;

  Plan plan;
  std::string log_dir;
  TrainState state;
  Progress progress;
  MetricStore metrics;
  KeptByName loggers;
  Requests requests;
  SavedCheckpoints saved;
  Run run;

 private:
  static constexpr LogRule kRule{"on_train_batch_end", LogRule::Phase::training, LogRule::Allowed::both,
                                 /*on_step=*/true};
  SoloWorld own_world_;
  torch::nn::Module own_module_;
};

}  // namespace cxtrain
