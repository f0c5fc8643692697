#include "cxtrain/scaling/exchange_model.h"

#include <algorithm>
#include <limits>

#include "cxtrain/scaling/statistics.h"

namespace cxtrain {

double exposed_exchanges(double exchanges, double backward, double tail) {
  return std::max(tail * exchanges, exchanges - (1 - tail) * backward);
}

/// W by least squares of relative errors.
void ExchangeModel::fit(std::span<const ExchangePoint> points, bool with_messages) {
  LeastSquares squares;
  for (const ExchangePoint& point : points)
    squares.add((1 - 1 / point.nodes) / point.exchanges, (point.nodes - 1) / point.exchanges, 1);
  bytes_ = squares.first_alone();
  messages_ = 0;
  if (with_messages && squares.shows_both()) {
    const auto [bytes, messages] = squares.both();
    if (bytes > 0 && messages > 0) {
      bytes_ = bytes;
      messages_ = messages;
    }
  }
  constexpr int kShares = 100;
  double least = std::numeric_limits<double>::infinity();
  for (int share = 0; share <= kShares; ++share) {
    const double tail = static_cast<double>(share) / kShares;
    double error = 0;
    for (const ExchangePoint& point : points) {
      const double off = exposed_exchanges(point.exchanges, point.backward, tail) - point.exposed;
      error += off * off;
    }
    if (error < least) {
      least = error;
      tail_ = tail;
    }
  }
}

}  // namespace cxtrain
