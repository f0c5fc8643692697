#pragma once

namespace cxtrain {

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
