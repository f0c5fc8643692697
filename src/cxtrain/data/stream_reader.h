#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "cxtrain/data/stream_dataset.h"

namespace cxtrain {

/// Collates the samples of a stream to batches, and keeps the position behind each batch until the batch is
/// used: a thread may read ahead.
class StreamReader {
 public:
  /// `batch_size`: samples of a batch. `drop_last`: leave out a last batch with fewer samples.
  StreamReader(std::shared_ptr<const StreamDataset> dataset, std::int64_t batch_size, bool drop_last);

  /// Opens the stream of an epoch. `first_batch`: the batch that is read first; if it is not 0, the stream
  /// goes to the loaded position. Throws StateError if no position was loaded.
  void start_epoch(const StreamContext& context, std::int64_t first_batch);
  /// Collates batch k; k counts up from `first_batch`. A batch of no samples is the end of the stream.
  void collate(std::int64_t k, bool pin_memory, Batch& batch);
  /// Returns the position before batch k; before the first epoch a loaded position.
  StateDict position(std::int64_t k) const;
  /// Loads a position for the next epoch that does not start at batch 0.
  void load(const StateDict& state) { loaded_ = std::make_unique<StateDict>(state.clone()); }
  /// Forgets the positions before batch k.
  void forget_before(std::int64_t k) {
    const std::lock_guard lock(mutex_);
    positions_.erase(positions_.begin(), positions_.lower_bound(k));
  }

  const StreamDataset& dataset() const { return *dataset_; }
  std::int64_t batch_size() const { return batch_size_; }

 private:
  void go_to(const StateDict& state);
  void note_position(std::int64_t k);

  std::shared_ptr<const StreamDataset> dataset_;
  std::int64_t batch_size_;
  bool drop_last_;
  std::unique_ptr<Stream> stream_;  ///< null: ended
  std::int64_t samples_ = 0;        ///< read in this epoch
  std::unique_ptr<StateDict> loaded_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, StateDict> positions_;  ///< before each batch
};

}  // namespace cxtrain
