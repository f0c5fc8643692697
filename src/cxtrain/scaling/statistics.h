#pragma once

#include <vector>

#include "cxtrain/base/each_field.h"

/// Pure.
namespace cxtrain {

/// A value and its 95 % interval.
struct Estimate {
  double value = 0, low = 0, high = 0;

  void fields(auto&& field) { CXTRAIN_EACH(field, value, low, high); }
};

/// Returns the median; 0 of nothing. Of an even number, the mean of the two in the middle.
double median_of(std::vector<double> values);

/// Returns the quantile `q` in [0, 1] by linear interpolation between order statistics; 0 of nothing.
double quantile_of(std::vector<double> values, double q);

/// Returns the median of at least one value, and the interval between the quantiles 0.025 and 0.975 of the
/// medians of 2,000 samples with replacement (percentile bootstrap, Efron 1979). Equal values give an equal
/// interval.
Estimate bootstrap_median(const std::vector<double>& values);

}  // namespace cxtrain
