#include "cxtrain/trainer/module.h"

#include <ATen/core/grad_mode.h>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

[[noreturn]] void refuse(const char* stage, const char* method) {
  throw ConfigError("model", std::string("cannot ") + stage + ": its class does not define " + method);
}

}  // namespace

void Module::validation_step(const Batch&, std::int64_t) { refuse("validate", "validation_step"); }
void Module::test_step(const Batch&, std::int64_t) { refuse("test", "test_step"); }
at::Tensor Module::predict_step(const Batch&, std::int64_t) { refuse("predict", "predict_step"); }

void Module::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  if (sink_ != nullptr) sink_->log(name, value, options);
}

void Module::log(std::string_view name, double value, const LogOptions& options) {
  if (sink_ != nullptr) sink_->log(name, value, options);
}

std::vector<NamedTensor> Module::all_parameters() const {
  std::vector<NamedTensor> all;
  for (const auto& item : named_parameters()) all.push_back({item.key(), item.value()});
  return all;
}

std::vector<NamedTensor> Module::all_buffers() const {
  std::vector<NamedTensor> all;
  for (const auto& item : named_buffers()) all.push_back({item.key(), item.value()});
  return all;
}

void Module::place(at::Device device, std::optional<at::ScalarType> dtype) {
  device_ = device;
  const at::NoGradGuard no_grad;
  if (dtype) {
    to(device, *dtype);
  } else {
    to(device);
  }
}

void Module::set_training(bool on) { train(on); }

void Module::attach(MetricSink* sink, const RunView* run) {
  sink_ = sink;
  run_ = run;
}

}  // namespace cxtrain
