#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

/// Pure.
namespace cxtrain {

/// A value and its 95 % interval.
struct Estimate {
  double value = 0, low = 0, high = 0;

  void fields(auto&& field) {
    field("value", value);
    field("low", low);
    field("high", high);
  }
};

/// Returns the median; 0 of nothing. Of an even number, the mean of the two in the middle.
double median_of(std::vector<double> values);

/// Returns the quantile `q` in [0, 1] by linear interpolation between order statistics; 0 of nothing.
double quantile_of(std::vector<double> values, double q);

/// Returns `statistic` of the indices 0 to `count` - 1, and the interval between its quantiles 0.025 and
/// 0.975 over 2,000 samples of `count` indices with replacement (percentile bootstrap, Efron 1979). `seed`
/// makes the result repeatable.
Estimate bootstrap(std::size_t count, std::uint64_t seed,
                   const std::function<double(std::span<const std::size_t> indices)>& statistic);

}  // namespace cxtrain
