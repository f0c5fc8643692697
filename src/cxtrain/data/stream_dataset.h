#pragma once

#include <cstdint>
#include <memory>

#include "cxtrain/data/batch.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// The samples that a rank reads in one epoch, one after the other. Belongs to one thread.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Reads a sample, as `Dataset::get` returns one; false at the end of the rank's shard.
  virtual bool next(Batch& sample) = 0;

  /// Saves and loads the position, so that a training resumes within an epoch. `save` is called after each
  /// batch. A stream that saves nothing is read again from its start to the position.
  virtual void save(StateDict& /*state*/) const {}
  virtual void load(const StateDict& /*state*/) {}
};

/// The stream that a rank opens for an epoch.
struct StreamContext {
  DataShard shard;  ///< the rank's shard: number `index` of `count`
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;  ///< seed of the run
};

/// Samples that have no index and no number: torch's IterableDataset. Each rank opens its own shard of the
/// stream in each epoch. One thread reads a stream, whatever the number of workers, so a shard is a rank's
/// and not a worker's. The ranks' shards may have different lengths: the epoch ends when all shards have
/// ended.
class StreamDataset {
 public:
  virtual ~StreamDataset() = default;

  /// Opens a shard at its start. Two streams of one context read the same samples.
  virtual std::unique_ptr<Stream> open(const StreamContext& context) const = 0;

  /// Finishes a batch on the rank's device, as `Dataset::on_after_batch_transfer` does.
  virtual void on_after_batch_transfer(Batch&) const {}
};

}  // namespace cxtrain
