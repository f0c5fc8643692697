#include "cxtrain/metrics/metric_store.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cxtrain {

double combined(ReduceFx fx, double a, double b) {
  if (fx == ReduceFx::mean || fx == ReduceFx::sum) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return fx == ReduceFx::min ? std::min(a, b) : std::max(a, b);
}

void MetricAccumulator::add(ReduceFx fx, double value, double samples) {
  weight += samples;
  const double part = fx == ReduceFx::mean ? value * samples : value;
  host = on_host ? combined(fx, host, part) : part;
  on_host = true;
}

void MetricAccumulator::add(ReduceFx fx, const at::Tensor& value, double samples) {
  weight += samples;
  // A sum that begins in an evaluation step may go on in a hook after it: a tensor made in inference mode
  // could not be written to there.
  const c10::InferenceMode everywhere(false);
  const at::NoGradGuard no_grad;  // the guard above turns gradients on
  const at::Tensor scalar = value.reshape({});
  if (device.defined() && device.device() != value.device()) device = device.to(value.device());
  if (fx == ReduceFx::min || fx == ReduceFx::max) {
    const at::Tensor precise = scalar.to(at::kDouble);
    if (!device.defined()) {
      device = precise;
    } else {
      device = fx == ReduceFx::min ? at::minimum(device, precise) : at::maximum(device, precise);
    }
    return;
  }
  if (!device.defined()) device = at::zeros({}, value.options().dtype(at::kDouble));
  device.add_(scalar, fx == ReduceFx::mean ? samples : 1.0);
}

double MetricAccumulator::read(ReduceFx fx) const {
  if (!device.defined()) return host;
  const auto there = device.item<double>();
  return on_host ? combined(fx, host, there) : there;
}

void MetricAccumulator::merge(ReduceFx fx, const MetricAccumulator& other) {
  weight += other.weight;
  if (!other.on_host && !other.device.defined()) return;
  const double value = other.read(fx);
  host = on_host ? combined(fx, host, value) : value;
  on_host = true;
}

}  // namespace cxtrain
