#include "cxtrain/data/sample_random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace cxtrain {
namespace {

/// SplitMix64 (Steele et al. 2014): spreads every bit of `x` over all bits of the result.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t mixed_seed(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t seed = 0;
  for (const std::uint64_t number : numbers) seed = mixed(seed + number);
  return seed;
}

SampleRandom::SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index, int layer)
    : engine_(mixed_seed({seed, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(layer)}),
              static_cast<std::uint64_t>(index)) {}

std::uint64_t SampleRandom::bits() {
  const std::uint64_t high = engine_();
  return high << 32 | engine_();
}

double SampleRandom::uniform(double low, double high) {
  return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53;
}

/// Box and Muller (1958).
double SampleRandom::normal(double mean, double deviation) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return mean + deviation * radius * std::cos(2 * std::numbers::pi * uniform());
}

/// Numbers beyond the last whole multiple of n are drawn again, so that none is more likely than another.
std::int64_t SampleRandom::below(std::int64_t n) {
  const auto count = static_cast<std::uint64_t>(n);
  const std::uint64_t end = std::numeric_limits<std::uint64_t>::max() / count * count;
  std::uint64_t number = bits();
  while (number >= end) number = bits();
  return static_cast<std::int64_t>(number % count);
}

at::Generator SampleRandom::generator() { return at::detail::createCPUGenerator(bits()); }

}  // namespace cxtrain
