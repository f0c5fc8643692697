#include "cxtrain/scaling/step_fit.h"

#include "cxtrain/scaling/least_squares.h"

namespace cxtrain {

void StepFit::fit(std::span<const FitPoint> points) {
  LeastSquares squares;
  for (const FitPoint& point : points)
    squares.add(work(point.ranks) / point.seconds, term_->at(point.ranks) / point.seconds, 1);
  work_ = squares.first_alone();
  cost_ = 0;
  if (!squares.shows_both()) return;
  const auto [work, cost] = squares.both();
  if (work < 0) {
    work_ = 0;
    cost_ = squares.second_alone();
  } else if (cost > 0) {
    work_ = work;
    cost_ = cost;
  }
}

}  // namespace cxtrain
