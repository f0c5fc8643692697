#pragma once

#include <ATen/ops/zeros.h>

#include "cxtrain/metrics/metric.h"

/// Metrics of values, torchmetrics' aggregation: each takes a tensor of any shape and dtype, and keeps one
/// float64. NaN stays NaN, where torchmetrics leaves it out.
namespace cxtrain {

/// The mean of all values, sum(weight * value) / sum(weight); NaN without values.
class MeanMetric final : public Metric {
 public:
  void update(const at::Tensor& values);
  void update(double value, double weight = 1);
  /// `weights`: of the shape of `values`, or one that it is broadcast from.
  void update(const at::Tensor& values, const at::Tensor& weights) override;
  at::Tensor compute() const override { return sum_.div(weight_); }

 private:
  at::Tensor& sum_ = add_state("sum", at::zeros({}, at::kDouble));
  at::Tensor& weight_ = add_state("weight", at::zeros({}, at::kDouble));
};

/// The sum of all values; 0 without values.
class SumMetric final : public Metric {
 public:
  using Metric::update;
  void update(const at::Tensor& values) {
    const Updating updating(*this);
    sum_ += here(values).to(at::kDouble).sum();
  }
  void update(double value);
  at::Tensor compute() const override { return sum_; }

 private:
  at::Tensor& sum_ = add_state("sum", at::zeros({}, at::kDouble));
};

/// The least or the greatest value.
class ExtremeMetric : public Metric {
 public:
  using Metric::update;
  void update(const at::Tensor& values);
  at::Tensor compute() const override { return value_; }

 protected:
  explicit ExtremeMetric(Reduce reduce);

 private:
  const Reduce reduce_;  ///< min or max
  at::Tensor& value_;
};

/// The least value; infinity without values.
class MinMetric final : public ExtremeMetric {
 public:
  MinMetric() : ExtremeMetric(Reduce::min) {}
};

/// The greatest value; minus infinity without values.
class MaxMetric final : public ExtremeMetric {
 public:
  MaxMetric() : ExtremeMetric(Reduce::max) {}
};

}  // namespace cxtrain
