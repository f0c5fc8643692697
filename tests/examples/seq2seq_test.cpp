#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randint.h>

#include <map>

#include "cxtrain/plugin/loader.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/trainer/module.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

/// Keeps what is logged last under each name.
struct LastValues final : MetricSink {
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options) override {
    log(name, value.item<double>(), options);
  }
  void log(std::string_view name, double value, const LogOptions&) override {
    values[std::string(name)] = value;
  }
  std::map<std::string, double> values;
};

TEST_CASE(
    "seq2seq's decoder is judged by what it would write by itself, and never reads what it is to write") {
  Registry registry;
  PluginLoader(registry, {CXTRAIN_PLUGIN_DIR}).require(Module::kKind, "seq2seq");
  std::vector<Problem> problems;
  const Arguments arguments(registry.require(Module::kKind, "seq2seq").arguments, {{"length", "5"}}, "model.",
                            problems);
  at::manual_seed(4);
  const auto model = registry.make<Module>("seq2seq", arguments);
  const std::vector<at::Device> devices(2, at::kCPU);
  trainable(*model).place(devices, precision_policy("32-true"));
  const at::NoGradGuard no_grad;
  Batch batch{.tensors = {at::randint(1, 256, {16, 5}, at::kLong), {}}, .size = 16};
  batch.tensors[1] = model->predict_step(batch, 0);  // its own writing is the goal that it meets
  LastValues logged;
  trainable(*model).redirect_log(&logged);
  model->validation_step(batch, 0);
  CHECK(logged.values.at("val_acc") == 1);
}

}  // namespace
}  // namespace cxtrain
