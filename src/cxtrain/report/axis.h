#pragma once

#include <string>
#include <vector>

namespace cxtrain {

/// A range of values along a side of a chart, and the values that are written there.
class Axis {
 public:
  struct Tick {
    double value = 0;
    std::string text;
  };

  /// `lowest` and `highest` are finite. With `log`, both are above 0. An empty range is widened.
  Axis(double lowest, double highest, bool log);

  /// Widens the range to the ticks before and behind it.
  void widen_to_ticks(int most_ticks);

  /// 0 at the lowest value, 1 at the highest; 0 for a value below 0 of a logarithmic axis.
  double share(double value) const;
  /// Round values within the range, at most so many; at least one.
  std::vector<Tick> ticks(int most) const;

  double lowest() const { return lowest_; }
  double highest() const { return highest_; }
  bool is_log() const { return log_; }

 private:
  double lowest_, highest_;
  bool log_;
};

/// "0", "0.25", "1.5k", "2M", "3e-5", with so many significant digits at most. Among values of which the
/// largest is 0.001 or more, smaller ones have no exponent.
std::string axis_number(double value, int digits = 4, double largest = 0);

}  // namespace cxtrain
