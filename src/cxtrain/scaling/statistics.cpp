#include "cxtrain/scaling/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace cxtrain {

double quantile_of(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

double median_of(std::vector<double> values) { return quantile_of(std::move(values), 0.5); }

Estimate bootstrap(std::size_t count, std::uint64_t seed,
                   const std::function<double(std::span<const std::size_t> indices)>& statistic) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  Estimate interval{.value = statistic(indices)};
  constexpr int kDraws = 2000;
  std::mt19937_64 random(seed);
  std::vector<double> values;
  for (int draw = 0; draw < kDraws; ++draw) {
    for (std::size_t& index : indices) index = random() % count;
    values.push_back(statistic(indices));
  }
  interval.low = quantile_of(values, 0.025);
  interval.high = quantile_of(values, 0.975);
  return interval;
}

}  // namespace cxtrain
