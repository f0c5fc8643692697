#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/data/dataset.h"
#include "cxtrain/data/sharded_sampler.h"

namespace cxtrain {

/// The batches of an epoch, of one loader or of several: each batch's samples are a pure function of (seed,
/// epoch, batch), so that a training resumes at any batch.
///
/// `start_epoch` belongs to one thread; everything else is const and may be called from several at once.
class EpochBatches {
 public:
  /// A loader, as one rank reads it.
  struct Loader {
    std::shared_ptr<const Dataset> dataset;
    ShardedSampler sampler;
    std::string name = {};  ///< of its part of a batch
  };
  /// `loaders`: at least one; all of one shard and one seed. `mode`: of several loaders. Throws ConfigError
  /// if the loaders cannot be combined.
  explicit EpochBatches(std::vector<Loader> loaders, Combine mode = Combine::max_size_cycle);

  void start_epoch(std::int64_t epoch);
  std::int64_t epoch() const { return epoch_; }
  std::uint64_t seed() const { return sources_[0].sampler().seed(); }
  DataShard shard() const { return sources_[0].sampler().shard(); }

  /// Batches per epoch; the same on every shard.
  std::int64_t num_batches() const { return num_batches_; }
  /// Samples of a full batch, over all shards; of sequential loaders the largest.
  std::int64_t global_batch_size() const { return global_batch_size_; }
  /// Samples of batch k, over all shards.
  std::int64_t global_size(std::int64_t k) const;
  /// Samples, over all shards, of the smallest among the first `batches` batches. With several loaders no
  /// batch has fewer samples.
  std::int64_t smallest_global_size(std::int64_t batches) const;
  /// The number of the loader that makes batch k alone; 0 if each batch has parts of several loaders.
  int dataloader_idx(std::int64_t k) const { return sequential() ? static_cast<int>(turn(k).loader) : 0; }

  /// Collates this shard's samples of batch k.
  void collate(std::int64_t k, bool pin_memory, Batch& batch) const;
  /// Calls `Dataset::on_after_batch_transfer` for batch k, or for each part of the batch.
  void finish(std::int64_t k, Batch& batch) const;

  /// All samples, one loader's after the other's.
  const Dataset& dataset() const { return *dataset_; }

 private:
  /// A batch of one loader: batch `k` in pass `pass` of its sampler.
  struct Turn {
    std::size_t loader = 0;
    std::int64_t pass = 0;
    std::int64_t k = 0;
  };
  struct Source {
    std::shared_ptr<const Dataset> dataset;
    std::string name;
    /// The sampler in each pass of the epoch. A loader that is cycled has several passes.
    std::vector<ShardedSampler> passes;

    const ShardedSampler& sampler() const { return passes[0]; }
  };
  bool sequential() const { return sources_.size() == 1 || mode_ == Combine::sequential; }
  /// Of sequential loaders.
  Turn turn(std::int64_t k) const;
  /// Of loaders that are read side by side: the loaders that have a batch.
  std::vector<Turn> turns(std::int64_t k) const;
  void collate(const Turn& turn, bool pin_memory, Batch& batch) const;
  const ShardedSampler& sampler(const Turn& turn) const {
    return sources_[turn.loader].passes[static_cast<std::size_t>(turn.pass)];
  }
  void require_parts() const;

  std::vector<Source> sources_;
  Combine mode_;
  std::shared_ptr<const Dataset> dataset_;
  std::int64_t num_batches_ = 0, global_batch_size_ = 0;
  std::int64_t epoch_ = 0;
};

}  // namespace cxtrain
