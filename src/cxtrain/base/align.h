#pragma once

#include <concepts>
#include <cstddef>

namespace cxtrain {

/// Bytes of a cache line. Processors fetch and own memory in cache lines, so data of two ranks should not
/// share one.
constexpr std::size_t kCacheLine = 64;

/// n / by, rounded up; for n >= 0, by > 0.
template <std::integral T>
constexpr T divide_up(T n, T by) {
  return (n + by - 1) / by;
}

/// The smallest multiple of `unit` that is not below `n`; for n >= 0, unit > 0.
template <std::integral T>
constexpr T round_up(T n, T unit) {
  return divide_up(n, unit) * unit;
}

}  // namespace cxtrain
