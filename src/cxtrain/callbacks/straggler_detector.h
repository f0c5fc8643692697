#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace cxtrain {

/// Tells whether one rank is slower than the others, from what each takes for its own work in a step. A rank
/// counts as slower when it was the slowest in several windows of steps in a row, clearly in each and a good
/// deal in most of them: what happens once, or to one rank after the other, is noise. Pure.
class StragglerDetector {
 public:
  /// A rank that is found has taken so much more than the others, of which the median counts: in each of
  /// `windows` windows, and in all but less than half of them (of four: three).
  struct Limits {
    double in_each = 0.05, in_most = 0.15;
    std::size_t windows = 4;
    double seconds = 0.001;  ///< of a step; what costs less is not worth a word
  };
  struct Straggler {
    int rank = 0;
    double seconds = 0, others_seconds = 0;  ///< of own work in a step
  };

  StragglerDetector() : StragglerDetector(Limits{}) {}
  explicit StragglerDetector(const Limits& limits) : limits_(limits) {}

  /// `seconds`: each rank's own work in a step of the next window, of at least two ranks. Returns a rank that
  /// has become slower, once: again only after as many windows in which it was not.
  std::optional<Straggler> add(std::span<const double> seconds);

 private:
  Limits limits_;
  int slowest_ = -1;
  std::vector<Straggler> in_a_row_;  ///< windows in which it was `slowest_`
  int found_ = -1;                   ///< that was told of
  std::size_t recovered_ = 0;        ///< windows since in which it was not slower
};

/// What a step takes when nothing comes between: the mean of the shortest three fifths.
double typical_step(std::vector<double> steps);

}  // namespace cxtrain
