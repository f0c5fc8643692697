#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cxtrain {

/// Points of a curve that lie too close together to be drawn apart; often a single one.
struct CurvePiece {
  double x = 0;                                        ///< of the first point
  double last_x = 0;                                   ///< of the point that was added last
  std::int64_t count = 0;                              ///< of finite values
  std::int64_t not_finite = 0;                         ///< of others
  double lowest = 0, highest = 0, mean = 0, last = 0;  ///< of finite values
};

/// A curve of any number of points in bounded memory: neighbouring points become one piece when there are
/// more pieces than may be drawn. The lowest and the highest value of all points are kept, with their places.
class Curve {
 public:
  struct Place {
    double x = 0, y = 0;
  };
  static constexpr std::size_t kMaxPieces = 1024;

  /// Points in the same interval of this width are one piece. The width doubles as often as it has to.
  explicit Curve(double width = 1) : width_(width) {}

  /// Any order of x; x is finite. Values beyond 1e150 count as not finite.
  void add(double x, double y);

  /// Ordered by x.
  const std::vector<CurvePiece>& pieces() const { return pieces_; }
  std::int64_t points() const { return points_; }
  std::int64_t not_finite() const { return not_finite_; }
  bool has_values() const { return points_ > not_finite_; }
  /// Of finite values, where there are any. `last`: of the highest x.
  Place lowest() const { return lowest_; }
  Place highest() const { return highest_; }
  Place last() const { return last_; }

 private:
  double interval_of(double x) const;
  void halve();

  double width_;
  std::vector<CurvePiece> pieces_;
  std::int64_t points_ = 0, not_finite_ = 0;
  Place lowest_, highest_, last_;
};

}  // namespace cxtrain
