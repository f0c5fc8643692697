#include "cxtrain/scaling/exchange_model.h"

#include <algorithm>
#include <limits>

namespace cxtrain {

double ExchangeModel::exposed_of(double exchanges, double backward, double tail) {
  return std::max(tail * exchanges, exchanges - (1 - tail) * backward);
}

/// Least squares of relative errors.
void ExchangeModel::fit(std::span<const ExchangePoint> points, bool with_messages) {
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const ExchangePoint& point : points) {
    const double u = (1 - 1 / point.nodes) / point.exchanges, v = (point.nodes - 1) / point.exchanges;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  bytes_ = u1 / uu;
  messages_ = 0;
  const double determinant = uu * vv - uv * uv;
  if (with_messages && determinant > 1e-12 * uu * vv) {
    const double bytes = (u1 * vv - v1 * uv) / determinant, messages = (v1 * uu - u1 * uv) / determinant;
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
      const double off = exposed_of(point.exchanges, point.backward, tail) - point.exposed;
      error += off * off;
    }
    if (error < least) {
      least = error;
      tail_ = tail;
    }
  }
}

}  // namespace cxtrain
