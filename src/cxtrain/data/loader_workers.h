#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "cxtrain/data/batch.h"

namespace cxtrain {

/// The threads behind a DataLoader for a part of one epoch: batches [first, end), made ahead and handed out
/// in order.
class LoaderWorkers {
 public:
  /// Makes batch k; called from several threads, each k once.
  using Make = std::function<void(std::int64_t k, Batch& batch)>;

  /// At most num_workers * prefetch_factor batches lie ready or are being made.
  LoaderWorkers(Make make, std::int64_t first, std::int64_t end, int num_workers, int prefetch_factor);
  /// Waits for the batches that are being made.
  ~LoaderWorkers();
  LoaderWorkers(const LoaderWorkers&) = delete;
  LoaderWorkers& operator=(const LoaderWorkers&) = delete;

  /// Batch k into `batch`; k counts up from `first`. Waits for it, and rethrows what making it threw.
  void take(std::int64_t k, Batch& batch);

 private:
  struct Slot {
    Batch batch;
    std::exception_ptr error;
    bool ready = false;
  };

  void work(const std::stop_token& stop);
  Slot& slot(std::int64_t k) { return slots_[static_cast<std::size_t>(k) % slots_.size()]; }

  Make make_;
  std::int64_t end_;
  std::mutex mutex_;
  std::condition_variable_any room_;  ///< a slot became free
  std::condition_variable made_;      ///< a slot became ready
  std::int64_t next_made_;            ///< the batch that the next free thread makes
  std::int64_t next_taken_;
  std::vector<Slot> slots_;            ///< a ring: batch k lies in slot k modulo its size
  std::vector<std::jthread> threads_;  ///< last: they use everything above
};

}  // namespace cxtrain
