#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cxtrain/config/values.h"
#include "cxtrain/data/batch.h"
#include "cxtrain/data/sampler.h"

namespace cxtrain {

struct SamplerOptions {
  std::int64_t batch_size = 1;  ///< per shard
  bool shuffle = false;
  std::uint64_t seed = 0;
  Uneven uneven = Uneven::pad;
  bool drop_last = false;  ///< leave out a last global batch that is not full
  std::shared_ptr<const Sampler> sampler =
      {};  ///< null: ShuffleSampler with `shuffle`, else SequentialSampler
};

/// Throws ConfigError for a batch of less than one sample.
void require_samples_of_batch(std::int64_t batch_size);

/// Which samples a rank reads in which batch.
///
/// A Sampler gives each epoch its order. The order is cut into global batches of `batch_size * count`; shard
/// r takes elements r, r + count, r + 2 * count ... of each. A global batch is therefore the same set of
/// samples for any number of ranks with the same `batch_size * count`, and the position in the data is a pure
/// function of (seed, epoch, batch), which makes resuming trivial.
///
/// `start_epoch` belongs to one thread; everything else is const and may be read from several at once.
class ShardedSampler {
 public:
  /// `samples`: size of the dataset. Starts in epoch 0. Throws ConfigError for a batch size below 1 or a
  /// sampler that does not fit the dataset, std::invalid_argument for an impossible shard.
  ShardedSampler(std::int64_t samples, DataShard shard, const SamplerOptions& options);

  void start_epoch(std::int64_t epoch);
  std::int64_t epoch() const { return epoch_; }
  std::uint64_t seed() const { return options_.seed; }

  DataShard shard() const { return shard_; }
  /// Samples of a full batch, over all shards.
  std::int64_t global_batch_size() const { return options_.batch_size * shard_.count; }

  /// Batches per epoch; the same on every shard. 0 for an empty dataset.
  std::int64_t num_batches() const { return num_batches_; }

  /// This shard's samples of batch k in [0, num_batches()). Empty only with `Uneven::exact` and nothing left
  /// for this shard. Throws DataError if the sampler names a sample that the dataset does not have.
  std::vector<std::int64_t> batch(std::int64_t k) const;

  /// Samples that all shards together read in batch k: the sum of their `batch(k).size()`, padding included.
  std::int64_t global_size(std::int64_t k) const {
    return k + 1 == num_batches_ ? last_global_size_ : options_.batch_size * shard_.count;
  }
  /// The same of the last batch: all other batches are full. Of no batches, the size of a full batch.
  std::int64_t last_global_size() const { return last_global_size_; }

 private:
  std::int64_t samples_;  ///< of the dataset
  std::int64_t size_;     ///< of an epoch
  DataShard shard_;
  SamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::int64_t num_batches_ = 0;
  std::int64_t last_global_size_ = 0;
  std::shared_ptr<const EpochOrder> order_;
};

}  // namespace cxtrain
