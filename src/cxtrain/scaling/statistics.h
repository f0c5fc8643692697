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

/// Least squares of two coefficients: `first * u + second * v` comes as close as possible to the targets.
/// Pure.
class LeastSquares {
 public:
  struct Coefficients {
    double first, second;
  };

  void add(double u, double v, double target) {
    uu_ += u * u;
    uv_ += u * v;
    vv_ += v * v;
    u1_ += u * target;
    v1_ += v * target;
  }
  /// The first coefficient if the second one is 0; 0 if every `u` is 0.
  double first_alone() const { return uu_ > 0 ? u1_ / uu_ : 0; }
  /// The second coefficient if the first one is 0. Not every `v` is 0.
  double second_alone() const { return v1_ / vv_; }
  /// Whether the points show both coefficients.
  bool shows_both() const { return determinant() > 1e-12 * uu_ * vv_; }
  Coefficients both() const {
    return {(u1_ * vv_ - v1_ * uv_) / determinant(), (v1_ * uu_ - u1_ * uv_) / determinant()};
  }

 private:
  double determinant() const { return uu_ * vv_ - uv_ * uv_; }

  double uu_ = 0, uv_ = 0, vv_ = 0, u1_ = 0, v1_ = 0;
};

}  // namespace cxtrain
