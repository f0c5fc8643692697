#include "cxtrain/metrics/aggregation.h"

#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>

#include <limits>

namespace cxtrain {

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

at::Tensor MeanMetric::compute() const { return sum_.div(weight_); }

void SumMetric::update(const at::Tensor& values) {
  const Updating updating(*this);
  sum_ += here(values).to(at::kDouble).sum();
}

void SumMetric::update(double value) { update(at::scalar_tensor(value, at::kDouble)); }

MinMetric::MinMetric()
    : least_(add_state("least", at::full({}, std::numeric_limits<double>::infinity(), at::kDouble),
                       Reduce::min)) {}

void MinMetric::update(const at::Tensor& values) {
  const Updating updating(*this);
  if (values.numel() > 0) least_ = at::minimum(least_, here(values).to(at::kDouble).min());
}

MaxMetric::MaxMetric()
    : most_(add_state("most", at::full({}, -std::numeric_limits<double>::infinity(), at::kDouble),
                      Reduce::max)) {}

void MaxMetric::update(const at::Tensor& values) {
  const Updating updating(*this);
  if (values.numel() > 0) most_ = at::maximum(most_, here(values).to(at::kDouble).max());
}

}  // namespace cxtrain
