#include "cxtrain/callbacks/spike_detector.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cxtrain {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<SpikeDetector::Spike> SpikeDetector::add(double loss) {
  const auto remember = [this](double value) {
    if (!std::isfinite(value)) return;
    usual_.push_back(value);
    if (usual_.size() > limits_.window) usual_.pop_front();
  };
  if (5 * usual_.size() < limits_.window) {
    remember(loss);
    return std::nullopt;
  }
  const double usual = median({usual_.begin(), usual_.end()});
  std::vector<double> distances;
  distances.reserve(usual_.size());
  for (const double value : usual_) distances.push_back(std::abs(value - usual));
  // Losses that hardly differ have a spread all the same, or rounding would be a spike.
  const double spread = std::max(1.4826 * median(std::move(distances)), 1e-3 * std::abs(usual));
  const bool within = std::isfinite(loss) && loss <= usual + limits_.deviations * spread;
  if (within) {
    spiked_.clear();
    remember(loss);
    return std::nullopt;
  }
  spiked_.push_back(loss);
  if (spiked_.size() >= limits_.window) {
    for (const double value : spiked_) remember(value);
    spiked_.clear();
    return std::nullopt;
  }
  if (spiked_.size() != limits_.in_a_row) return std::nullopt;
  return Spike{usual, spread, spiked_.size()};
}

}  // namespace cxtrain
