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

double extreme(ReduceFx fx, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return fx == ReduceFx::min ? std::min(a, b) : std::max(a, b);
}

void MetricScalar::set(double value) {
  host_ = value;
  if (device_.defined()) device_.reset();
}
void MetricScalar::set(const at::Tensor& value) {
  host_ = 0;
  device_ = value;
}
double MetricScalar::read() const { return device_.defined() ? device_.item<double>() : host_; }

void MetricAccumulator::add(ReduceFx fx, double value, double samples) {
  weight += samples;
  switch (fx) {
    case ReduceFx::mean:
      host += value * samples;
      break;
    case ReduceFx::sum:
      host += value;
      break;
    case ReduceFx::min:
    case ReduceFx::max:
      host = on_host ? extreme(fx, host, value) : value;
      break;
  }
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
  if (!on_host) return there;
  return fx == ReduceFx::min || fx == ReduceFx::max ? extreme(fx, host, there) : host + there;
}

void MetricAccumulator::merge(ReduceFx fx, const MetricAccumulator& other) {
  weight += other.weight;
  if (!other.on_host && !other.device.defined()) return;
  const double value = other.read(fx);
  if (fx == ReduceFx::mean || fx == ReduceFx::sum) {
    host += value;
  } else if (!on_host) {
    host = value;
  } else {
    host = extreme(fx, host, value);
  }
  on_host = true;
}

}  // namespace cxtrain
