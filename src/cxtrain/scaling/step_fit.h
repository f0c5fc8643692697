#pragma once

#include <cmath>
#include <span>

#include "cxtrain/scaling/study.h"

/// Laws of times as functions of the number of ranks, fitted to measured sizes. Pure.
namespace cxtrain {

struct FitPoint {
  double ranks, seconds;
};

/// What ranks cost each other, as a function of their number.
struct CostTerm {
  const char* text;
  double (*at)(double ranks);
};

inline constexpr CostTerm kMessages{"log2(ranks)", [](double ranks) { return std::log2(ranks); }};
inline constexpr CostTerm kBytes{"(1 - 1/ranks)", [](double ranks) { return 1 - 1 / ranks; }};
inline constexpr CostTerm kConstant{"constant", [](double /*ranks*/) { return 1.0; }};
inline constexpr CostTerm kContention{"ranks", [](double ranks) { return ranks - 1; }};

/// The sum of two terms with coefficients of at least 0: one for the work of a rank (a constant in the mode
/// `weak`, `1/ranks` in `strong`), and a cost term.
class StepFit {
 public:
  StepFit(ScalingMode mode, const CostTerm& term) : mode_(mode), term_(&term) {}

  /// Least squares of relative errors.
  void fit(std::span<const FitPoint> points);
  double at(double ranks) const { return work_ * work(ranks) + cost_ * term_->at(ranks); }

 private:
  double work(double ranks) const { return mode_ == ScalingMode::weak ? 1 : 1 / ranks; }

  ScalingMode mode_;
  const CostTerm* term_;
  double work_ = 0, cost_ = 0;
};

}  // namespace cxtrain
