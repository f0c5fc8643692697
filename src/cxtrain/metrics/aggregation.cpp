#include "cxtrain/metrics/aggregation.h"

#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>

#include <limits>

namespace cxtrain {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void MeanMetric::update(const at::Tensor& values) { update(values, at::ones_like(values)); }

void MeanMetric::update(double value, double weight) {
  update(at::scalar_tensor(value, at::kDouble), at::scalar_tensor(weight, at::kDouble));
}

void MeanMetric::update(const at::Tensor& values, const at::Tensor& weights) {
  const Updating updating(*this);
  const at::Tensor value = here(values).to(at::kDouble);
  const at::Tensor weight = here(weights).to(at::kDouble).expand(value.sizes());
  sum_ += value.mul(weight).sum();
  weight_ += weight.sum();
}

void SumMetric::update(double value) { update(at::scalar_tensor(value, at::kDouble)); }

ExtremeMetric::ExtremeMetric(Reduce reduce)
    : reduce_(reduce),
      value_(add_state(reduce == Reduce::min ? "least" : "most",
                       at::full({}, reduce == Reduce::min ? kInfinity : -kInfinity, at::kDouble), reduce)) {}

void ExtremeMetric::update(const at::Tensor& values) {
  const Updating updating(*this);
  if (values.numel() == 0) return;
  const at::Tensor found = here(values).to(at::kDouble);
  value_ = reduce_ == Reduce::min ? at::minimum(value_, found.min()) : at::maximum(value_, found.max());
}

}  // namespace cxtrain
