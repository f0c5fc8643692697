#include "cxtrain/scaling/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>

namespace cxtrain {

double quantile_of(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

double median_of(std::vector<double> values) { return quantile_of(std::move(values), 0.5); }

Estimate bootstrap_median(const std::vector<double>& values) {
  constexpr std::uint64_t kSeed = 20200917;
  constexpr int kDraws = 2000;
  std::mt19937_64 random(kSeed);
  std::vector<double> medians, drawn(values.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    for (double& value : drawn) value = values[random() % values.size()];
    medians.push_back(median_of(drawn));
  }
  return {median_of(values), quantile_of(medians, 0.025), quantile_of(medians, 0.975)};
}

}  // namespace cxtrain
