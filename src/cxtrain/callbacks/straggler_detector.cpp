#include "cxtrain/callbacks/straggler_detector.h"

#include <algorithm>
#include <numeric>

namespace cxtrain {
namespace {

double median_without(std::span<const double> values, std::size_t left_out) {
  std::vector<double> others;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != left_out) others.push_back(values[i]);
  }
  std::sort(others.begin(), others.end());
  const std::size_t middle = others.size() / 2;
  return others.size() % 2 == 1 ? others[middle] : (others[middle - 1] + others[middle]) / 2;
}

}  // namespace

std::optional<StragglerDetector::Straggler> StragglerDetector::add(std::span<const double> seconds) {
  const auto slowest =
      static_cast<std::size_t>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
  const Straggler window{static_cast<int>(slowest), seconds[slowest], median_without(seconds, slowest)};
  const bool clear = window.seconds > (1 + limits_.in_each) * window.others_seconds;

  recovered_ = clear && window.rank == found_ ? 0 : recovered_ + 1;
  if (recovered_ >= limits_.windows) found_ = -1;
  if (!clear || window.rank != slowest_) in_a_row_.clear();
  slowest_ = window.rank;
  if (!clear) return std::nullopt;
  if (in_a_row_.size() == limits_.windows) in_a_row_.erase(in_a_row_.begin());
  in_a_row_.push_back(window);
  if (in_a_row_.size() < limits_.windows || window.rank == found_) return std::nullopt;

  std::vector<Straggler> by_excess = in_a_row_;
  std::sort(by_excess.begin(), by_excess.end(), [](const Straggler& a, const Straggler& b) {
    return a.seconds * b.others_seconds < b.seconds * a.others_seconds;
  });
  const Straggler& usual = by_excess[(by_excess.size() - 1) / 2];
  if (usual.seconds < (1 + limits_.in_most) * usual.others_seconds ||
      usual.seconds < usual.others_seconds + limits_.seconds)
    return std::nullopt;
  found_ = window.rank;
  recovered_ = 0;
  return usual;
}

double typical_step(std::vector<double> steps) {
  const std::size_t kept = steps.size() - 2 * steps.size() / 5;
  std::nth_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(kept - 1), steps.end());
  const auto end = steps.begin() + static_cast<std::ptrdiff_t>(kept);
  return std::accumulate(steps.begin(), end, 0.0) / static_cast<double>(kept);
}

}  // namespace cxtrain
