#include "cxtrain/report/curve.h"

#include <algorithm>
#include <cmath>

namespace cxtrain {
namespace {

/// Squares and differences of values below it are finite.
constexpr double kLargestValue = 1e150;

/// The values of `later` follow those of `piece`.
void merge_into(CurvePiece& piece, const CurvePiece& later) {
  piece.x = std::min(piece.x, later.x);
  piece.last_x = std::max(piece.last_x, later.last_x);
  piece.not_finite += later.not_finite;
  if (later.count == 0) return;
  const bool first = piece.count == 0;
  piece.lowest = first ? later.lowest : std::min(piece.lowest, later.lowest);
  piece.highest = first ? later.highest : std::max(piece.highest, later.highest);
  piece.last = later.last;
  piece.count += later.count;
  piece.mean +=
      (later.mean - piece.mean) * static_cast<double>(later.count) / static_cast<double>(piece.count);
}

}  // namespace

double Curve::interval_of(double x) const { return std::floor(x / width_); }

void Curve::add(double x, double y) {
  const bool is_finite = std::isfinite(y) && std::abs(y) <= kLargestValue;
  const bool first = points_ == not_finite_;
  ++points_;
  if (!is_finite) ++not_finite_;
  if (is_finite) {
    if (first || y < lowest_.y) lowest_ = {x, y};
    if (first || y > highest_.y) highest_ = {x, y};
    if (first || x >= last_.x) last_ = {x, y};
  }
  const double interval = interval_of(x);
  auto at = pieces_.end();
  if (!pieces_.empty() && interval <= interval_of(pieces_.back().x)) {
    at = std::ranges::lower_bound(pieces_, interval, {},
                                  [this](const CurvePiece& piece) { return interval_of(piece.x); });
  }
  if (at == pieces_.end() || interval_of(at->x) != interval) at = pieces_.insert(at, {.x = x, .last_x = x});
  CurvePiece point{.x = x, .last_x = x, .not_finite = 1};
  if (is_finite) point = {.x = x, .last_x = x, .count = 1, .lowest = y, .highest = y, .mean = y, .last = y};
  merge_into(*at, point);
  while (pieces_.size() > kMaxPieces) halve();
}

void Curve::halve() {
  width_ *= 2;
  std::size_t kept = 0;
  for (std::size_t i = 1; i < pieces_.size(); ++i) {
    if (interval_of(pieces_[i].x) == interval_of(pieces_[kept].x)) {
      merge_into(pieces_[kept], pieces_[i]);
    } else {
      pieces_[++kept] = pieces_[i];
    }
  }
  pieces_.resize(kept + 1);
}

}  // namespace cxtrain
