#include "cxtrain/scaling/step_fit.h"

namespace cxtrain {

void StepFit::fit(std::span<const FitPoint> points) {
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const FitPoint& point : points) {
    const double u = work(point.ranks) / point.seconds, v = term_->at(point.ranks) / point.seconds;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  work_ = uu > 0 ? u1 / uu : 0;
  cost_ = 0;
  if (determinant <= 1e-12 * uu * vv) return;
  const double both_work = (u1 * vv - v1 * uv) / determinant, both_cost = (v1 * uu - u1 * uv) / determinant;
  if (both_work < 0) {
    work_ = 0;
    cost_ = v1 / vv;
  } else if (both_cost > 0) {
    work_ = both_work;
    cost_ = both_cost;
  }
}

}  // namespace cxtrain
