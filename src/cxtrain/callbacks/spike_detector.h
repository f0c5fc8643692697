#pragma once

#include <cstddef>
#include <deque>
#include <optional>

namespace cxtrain {

/// Tells whether a loss has left the range that it had. What is usual is the median of the last losses, and
/// their spread 1.4826 times the median of their distances from it: the standard deviation where they are
/// normally distributed, and a few odd ones among them change neither
/// (https://en.wikipedia.org/wiki/Median_absolute_deviation). Pure.
class SpikeDetector {
 public:
  struct Limits {
    std::size_t window = 100;  ///< losses that say what is usual; before a fifth of them there is no verdict
    double deviations = 10;    ///< above the median, in spreads
    std::size_t in_a_row = 3;  ///< so many losses; a single one may be an odd batch
  };
  struct Spike {
    double usual = 0;  ///< the median
    double spread = 0;
    std::size_t losses = 0;  ///< in a row; the last one was added now
  };

  explicit SpikeDetector(const Limits& limits) : limits_(limits) {}

  /// The next loss; one that is not finite is above every range. Returns a spike once, when it is long
  /// enough. One that lasts as long as the window has become usual.
  std::optional<Spike> add(double loss);

 private:
  Limits limits_;
  std::deque<double> usual_;   ///< the last losses that were no spike
  std::deque<double> spiked_;  ///< those since, in a row, that are
};

}  // namespace cxtrain
