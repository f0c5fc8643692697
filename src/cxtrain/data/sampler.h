#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace cxtrain {

/// The order of one epoch: which sample is at which position. Several threads may call `at`.
class EpochOrder {
 public:
  virtual ~EpochOrder() = default;
  /// Returns an index in [0, samples of the dataset), for a position in [0, `Sampler::size`).
  virtual std::int64_t at(std::int64_t position) const = 0;
};

/// The order in which epochs visit the samples of a dataset. The order is one for all ranks, and a function
/// of (seed, epoch) alone. The loader cuts it into global batches and gives each rank its shard, so every
/// sampler works on any number of ranks, and a resumed run continues in the order.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Returns the samples of an epoch. `samples`: size of the dataset.
  virtual std::int64_t size(std::int64_t samples) const { return samples; }
  virtual std::unique_ptr<const EpochOrder> order(std::int64_t samples, std::uint64_t seed,
                                                  std::int64_t epoch) const = 0;
};

/// The order of the dataset.
class SequentialSampler final : public Sampler {
 public:
  std::unique_ptr<const EpochOrder> order(std::int64_t samples, std::uint64_t seed,
                                          std::int64_t epoch) const override;
};

/// A new permutation for each epoch. Up to `kTable` samples: the permutation of torch's DistributedSampler,
/// `randperm` of a CPU generator seeded with `seed + epoch`, as a table. Beyond: a keyed Feistel network with
/// cycle walking (Black & Rogaway 2002), which takes no memory.
class ShuffleSampler final : public Sampler {
 public:
  static constexpr std::int64_t kTable = std::int64_t{1} << 24;  ///< 128 MiB
  explicit ShuffleSampler(std::int64_t table = kTable) : table_(table) {}
  std::unique_ptr<const EpochOrder> order(std::int64_t samples, std::uint64_t seed,
                                          std::int64_t epoch) const override;

 private:
  std::int64_t table_;
};

/// Draws samples in proportion to their weights: torch's WeightedRandomSampler.
class WeightedSampler final : public Sampler {
 public:
  /// `weights`: one for each sample of the dataset, none negative, not all 0. `num_samples`: of an epoch;
  /// 0: as many as the dataset has. With `replacement` each draw is independent (alias method, Vose 1991),
  /// and an epoch takes no memory. Without, no sample comes twice (Efraimidis & Spirakis 2006), and an epoch
  /// takes 16 bytes a sample. Throws ConfigError.
  explicit WeightedSampler(std::vector<double> weights, std::int64_t num_samples = 0,
                           bool replacement = true);
  /// Throws ConfigError if the dataset has another number of samples than weights.
  std::int64_t size(std::int64_t samples) const override;
  std::unique_ptr<const EpochOrder> order(std::int64_t samples, std::uint64_t seed,
                                          std::int64_t epoch) const override;

 private:
  /// Sample i is kept with `keep[i]` of its share, else `other[i]` is taken.
  struct Alias {
    std::vector<double> keep;
    std::vector<std::int64_t> other;
  };
  class Draws;
  void build_alias();

  std::vector<double> weights_;
  std::int64_t num_samples_;
  bool replacement_;
  std::shared_ptr<const Alias> alias_;
};

/// Puts samples of similar lengths beside each other, so that their batch needs little padding: the samples
/// are shuffled, and each group of them is sorted by length, the longest first. The group of the longest
/// sample comes first: a lack of memory shows in the first step.
class LengthGroupedSampler final : public Sampler {
 public:
  /// `lengths`: one for each sample. `group`: samples that are sorted together, for example 50 global
  /// batches. Throws ConfigError.
  LengthGroupedSampler(std::vector<std::int64_t> lengths, std::int64_t group);
  std::int64_t size(std::int64_t samples) const override;
  std::unique_ptr<const EpochOrder> order(std::int64_t samples, std::uint64_t seed,
                                          std::int64_t epoch) const override;

 private:
  std::vector<std::int64_t> lengths_;
  std::int64_t group_;
};

}  // namespace cxtrain
