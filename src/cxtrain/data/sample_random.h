#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <cstdint>
#include <initializer_list>

namespace cxtrain {

/// Returns a seed that depends on every bit of each of the numbers.
std::uint64_t mixed_seed(std::initializer_list<std::uint64_t> numbers);

/// Random numbers of one sample, for augmentation. They depend on (seed, epoch, index) alone: a sample
/// changes from epoch to epoch, and is the same in every run, on any number of ranks and workers. Philox
/// 4x32-10 (Salmon et al. 2011), LibTorch's.
class SampleRandom {
 public:
  /// `layer`: tells apart the datasets that lie over each other (`map` of a `map`).
  SampleRandom(std::uint64_t seed, std::int64_t epoch, std::int64_t index, int layer = 0);

  /// Uniform in [low, high), with 53 random bits.
  double uniform(double low = 0, double high = 1);
  /// Normal.
  double normal(double mean = 0, double deviation = 1);
  /// Uniform in [0, n). `n` is at least 1.
  std::int64_t below(std::int64_t n);
  /// True with this probability.
  bool flip(double probability = 0.5) { return uniform() < probability; }
  /// A generator for operators that take one: `torch::randn({3}, random.generator())`.
  at::Generator generator();

 private:
  std::uint64_t bits();

  at::Philox4_32 engine_;
};

}  // namespace cxtrain
