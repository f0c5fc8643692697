#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "cxtrain/base/stage.h"
#include "cxtrain/data/dataset.h"
#include "cxtrain/data/epoch_batches.h"
#include "cxtrain/data/sharded_sampler.h"
#include "cxtrain/data/stream_reader.h"

namespace cxtrain {

class LoaderWorkers;

struct LoaderOptions {
  int num_workers = 0;       ///< 0: batches are collated by the thread that calls `next`
  int prefetch_factor = 2;   ///< batches that each worker may be ahead
  Stage stage = Stage::fit;  ///< fit: training batches
  int dataloader_idx = 0;    ///< number of the loader in its stage
  bool to_device = false;  ///< batches go to an accelerator: they are page-locked, and left to `finish` there
};

/// The batches of one rank, epoch after epoch.
///
/// With workers, batches are collated ahead on `num_workers` threads, never more than num_workers *
/// prefetch_factor, and arrive in the sampler's order whatever the threads' timing: the sequence is the same
/// for any number of workers. One thread reads a stream. The threads start with the first epoch
/// and end with the loader. Between epochs they wait; an epoch that starts before the last one has ended
/// waits for the batches that are being made.
///
/// All methods are called from one thread.
class DataLoader {
 public:
  /// Throws ConfigError for a negative number of workers or a prefetch factor below 1.
  explicit DataLoader(EpochBatches batches, const LoaderOptions& options = {});
  DataLoader(const DataLoaderSpec& spec, ShardedSampler sampler, const LoaderOptions& options = {})
      : DataLoader(EpochBatches({{spec.dataset, std::move(sampler)}}), options) {}
  /// Reads a stream. `context`: the shard and the seed.
  DataLoader(std::unique_ptr<StreamReader> stream, const StreamContext& context,
             const LoaderOptions& options = {});
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Starts over: the next batch is `first_batch` of this epoch, the last one `last_batch` - 1 (default: the
  /// epoch's).
  void start_epoch(std::int64_t epoch, std::int64_t first_batch = 0,
                   std::optional<std::int64_t> last_batch = std::nullopt);

  /// The next batch into `batch`; false when there is none. Rethrows what the dataset threw while it collated
  /// this batch, and then ends the epoch.
  bool next(Batch& batch);
  /// Returns whether `next` would return a batch; reads that batch.
  bool has_next();
  /// What is left to do with a batch once it is on the device that it goes to
  /// (`Dataset::on_after_batch_transfer`). Batches that go to none come finished.
  void finish(Batch& batch) const { finish(position_ - 1, batch); }

  /// Whether the loader reads a stream: ranks may have different numbers of batches, known at the end only.
  bool is_stream() const { return stream_ != nullptr; }
  /// The position of a stream behind the last batch of `next`, on this rank.
  StateDict stream_position() const { return stream_->position(position_); }
  /// Loads the position of a stream for the next epoch that starts behind batch 0.
  void load_stream_position(const StateDict& state) { stream_->load(state); }

  /// Batches of a whole epoch, the same on every rank; of a stream `kUnknownBatches`.
  std::int64_t num_batches() const { return stream_ ? kUnknownBatches : batches_->num_batches(); }
  const LoaderOptions& options() const { return options_; }
  /// Returns the dataset; the loader must not read a stream.
  const Dataset& dataset() const { return batches_->dataset(); }
  /// Samples of the whole dataset.
  std::int64_t dataset_size() const { return dataset().size(); }
  DataShard shard() const { return stream_ ? stream_context_.shard : batches_->shard(); }
  /// Samples of a full batch, over all ranks.
  std::int64_t global_batch_size() const {
    return stream_ ? stream_->batch_size() * shard().count : batches_->global_batch_size();
  }
  /// Of the batch that `next` returned last: its number in the epoch, and its samples over all ranks. A batch
  /// of a stream counts as full.
  std::int64_t batch_idx() const { return position_ - 1; }
  /// The epoch of that batch, and the seed of the order.
  std::int64_t epoch() const { return stream_ ? stream_context_.epoch : batches_->epoch(); }
  std::uint64_t seed() const { return stream_ ? stream_context_.seed : batches_->seed(); }
  /// The loader that made that batch: its number in the stage. 0 for a batch with parts of several loaders.
  int dataloader_idx() const {
    return options_.dataloader_idx + (stream_ ? 0 : batches_->dataloader_idx(batch_idx()));
  }
  /// Whether every rank has a sample of every batch of this epoch, as far as that is known; not known of a
  /// stream.
  bool samples_on_every_rank() const {
    return !stream_ && batches_->smallest_global_size(end_) >= shard().count;
  }
  std::int64_t global_size() const {
    return stream_ ? global_batch_size() : batches_->global_size(batch_idx());
  }

 private:
  void collate(std::int64_t k, Batch& batch) const;
  void finish(std::int64_t k, Batch& batch) const;
  bool read(std::int64_t k, Batch& batch);
  void end_epoch(std::int64_t k);

  std::optional<EpochBatches> batches_;   ///< absent for a stream
  std::unique_ptr<StreamReader> stream_;  ///< null for datasets
  StreamContext stream_context_;
  LoaderOptions options_;
  std::int64_t position_ = 0;  ///< the batch that `next` returns
  std::int64_t end_ = 0;
  std::optional<Batch> ahead_;              ///< the batch that `next` returns, read by `has_next`
  std::unique_ptr<LoaderWorkers> workers_;  ///< last: its threads read the members above
};

}  // namespace cxtrain
