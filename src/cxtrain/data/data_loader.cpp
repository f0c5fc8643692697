#include "cxtrain/data/data_loader.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/phase_clock.h"

namespace cxtrain {

/// The threads of a DataLoader. Each epoch they make the batches [first, end) ahead, and hand them out in
/// order; between epochs they wait.
class LoaderWorkers {
 public:
  /// Makes batch k; called from several threads, each k once.
  using Make = std::function<void(std::int64_t k, Batch& batch)>;

  /// At most num_workers * prefetch_factor batches lie ready or are being made.
  LoaderWorkers(Make make, int num_workers, int prefetch_factor);
  /// Waits for the batches that are being made.
  ~LoaderWorkers();
  LoaderWorkers(const LoaderWorkers&) = delete;
  LoaderWorkers& operator=(const LoaderWorkers&) = delete;

  /// Makes the batches [first, end) from now on. Follows `stop`, or the constructor.
  void start(std::int64_t first, std::int64_t end);
  /// Ends the epoch: waits for the batches that are being made, and frees the others.
  void stop();
  /// Batch k into `batch`; k counts up from `first`. Waits for it, and rethrows what making it threw.
  void take(std::int64_t k, Batch& batch);

 private:
  struct Slot {
    Batch batch;
    std::exception_ptr error;
    bool ready = false;
  };

  void work(const std::stop_token& stop);
  bool has_work() const {
    return next_made_ < end_ && next_made_ - next_taken_ < static_cast<std::int64_t>(slots_.size());
  }
  Slot& slot(std::int64_t k) { return slots_[static_cast<std::size_t>(k) % slots_.size()]; }

  Make make_;
  std::mutex mutex_;
  std::condition_variable_any room_;  ///< a slot became free, or an epoch starts
  std::condition_variable made_;      ///< a slot became ready
  std::int64_t end_ = 0;
  std::int64_t next_made_ = 0;  ///< the batch that the next free thread makes
  std::int64_t next_taken_ = 0;
  int making_ = 0;                     ///< batches that are being made
  std::vector<Slot> slots_;            ///< a ring: batch k lies in slot k modulo its size
  std::vector<std::jthread> threads_;  ///< last: they use everything above
};
namespace {

/// Keeps ATen's operators on the calling thread. OpenMP counts threads for each of its callers, so this
/// concerns no other; at::set_num_threads would also change what threads that start later get, and
/// c10::ParallelGuard is not asked by ATen's OpenMP back end. The symbol is LibTorch's own OpenMP, whichever
/// that is.
void stay_on_this_thread() {
  at::get_num_threads();  // its first call in a thread sets the count that is then replaced here
  using SetNumThreads = void (*)(int);
  if (const auto set = reinterpret_cast<SetNumThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
}

void require_workers(const LoaderOptions& options) {
  if (options.num_workers < 0) {
    throw ConfigError("data.num_workers", std::to_string(options.num_workers) + " workers were asked for",
                      "use 0 (no threads) or more", MessageCode::out_of_range);
  }
  if (options.prefetch_factor < 1) {
    throw ConfigError("data.prefetch_factor",
                      std::to_string(options.prefetch_factor) + " batches ahead of a worker were asked for",
                      "use 1 or more", MessageCode::out_of_range);
  }
}

}  // namespace

DataLoader::DataLoader(EpochBatches batches, const LoaderOptions& options)
    : batches_(std::move(batches)), options_(options) {
  require_workers(options);
}

DataLoader::DataLoader(std::unique_ptr<StreamReader> stream, const StreamContext& context,
                       const LoaderOptions& options)
    : stream_(std::move(stream)), stream_context_(context), options_(options) {
  require_workers(options);
}

DataLoader::~DataLoader() = default;

void DataLoader::start_epoch(std::int64_t epoch, std::int64_t first_batch,
                             std::optional<std::int64_t> last_batch) {
  if (workers_) workers_->stop();  // they read the samplers, or the stream
  ahead_.reset();
  position_ = std::max<std::int64_t>(first_batch, 0);
  end_ = std::min(last_batch.value_or(num_batches()), num_batches());
  if (stream_) {
    stream_context_.epoch = epoch;
    stream_->start_epoch(stream_context_, position_);
  } else {
    batches_->start_epoch(epoch);
  }
  if (options_.num_workers == 0 || position_ >= end_) return;
  if (!workers_)
    workers_ = std::make_unique<LoaderWorkers>([this](std::int64_t k, Batch& batch) { collate(k, batch); },
                                               stream_ ? 1 : options_.num_workers, options_.prefetch_factor);
  workers_->start(position_, end_);
}

bool DataLoader::next(Batch& batch) {
  if (ahead_) {
    batch = *std::exchange(ahead_, std::nullopt);
  } else if (!read(position_, batch)) {
    return false;
  }
  ++position_;
  if (stream_) stream_->forget_before(position_);
  return true;
}

bool DataLoader::has_next() {
  if (ahead_) return true;
  const PhaseScope phase(Phase::data);
  Batch batch;
  if (!read(position_, batch)) return false;
  ahead_ = std::move(batch);
  return true;
}

bool DataLoader::read(std::int64_t k, Batch& batch) {
  if (k >= end_) return false;
  try {
    if (workers_) {
      workers_->take(k, batch);
    } else {
      collate(k, batch);
    }
  } catch (...) {
    end_epoch(k);
    throw;
  }
  if (!stream_ || batch.size > 0) return true;
  end_epoch(k);
  return false;
}

void DataLoader::end_epoch(std::int64_t k) {
  if (workers_) workers_->stop();
  end_ = k;
}

void DataLoader::collate(std::int64_t k, Batch& batch) const {
  if (stream_) {
    stream_->collate(k, options_.to_device, batch);
  } else {
    batches_->collate(k, options_.to_device, batch);
  }
  if (!options_.to_device) return finish(k, batch);
  for (at::Tensor& tensor : batch.tensors) tensor = tensor.pin_memory();  // as it is, where it is so already
  batch.change_object_tensors([](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.pin_memory();
  });
}

void DataLoader::finish(std::int64_t k, Batch& batch) const {
  if (batch.size == 0) return;
  if (!stream_) return batches_->finish(k, batch);
  stream_->dataset().on_after_batch_transfer(batch);
}

LoaderWorkers::LoaderWorkers(Make make, int num_workers, int prefetch_factor)
    : make_(std::move(make)),
      slots_(static_cast<std::size_t>(num_workers) * static_cast<std::size_t>(prefetch_factor)) {
  threads_.reserve(static_cast<std::size_t>(num_workers));
  try {
    for (int i = 0; i < num_workers; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  } catch (const std::exception& error) {  // std::system_error, or std::bad_alloc
    const auto* refusal = dynamic_cast<const std::system_error*>(&error);
    throw ConfigError(
        "data.num_workers",
        "of " + std::to_string(num_workers) + " threads only " + std::to_string(threads_.size()) +
            " can be started: " + (refusal != nullptr ? refusal->code().message() : "no memory is left"),
        "ask for fewer, or raise the limits (ulimit -u, ulimit -v)", MessageCode::out_of_memory);
  }
}

LoaderWorkers::~LoaderWorkers() {
  for (std::jthread& thread : threads_) thread.request_stop();  // all of them, before the first is waited for
}

void LoaderWorkers::start(std::int64_t first, std::int64_t end) {
  {
    const std::lock_guard lock(mutex_);
    next_made_ = next_taken_ = first;
    end_ = end;
  }
  room_.notify_all();
}

void LoaderWorkers::stop() {
  std::unique_lock lock(mutex_);
  end_ = next_made_;
  made_.wait(lock, [this] { return making_ == 0; });
  for (Slot& slot : slots_) slot = {};
}

void LoaderWorkers::work(const std::stop_token& stop) {
  {
    std::unique_lock lock(mutex_);
    if (!room_.wait(lock, stop, [this] { return has_work(); })) return;
  }
  // The workers are the parallelism. This takes memory: not before all threads have started.
  stay_on_this_thread();
  for (;;) {
    std::int64_t k = 0;
    Batch batch;
    {
      std::unique_lock lock(mutex_);
      if (!room_.wait(lock, stop, [this] { return has_work(); })) return;
      k = next_made_++;
      ++making_;
      batch = std::move(slot(k).batch);
    }
    std::exception_ptr error;
    try {
      make_(k, batch);
    } catch (...) {
      error = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      slot(k) = {std::move(batch), error, true};
      --making_;
    }
    made_.notify_one();  // only the loader's own thread waits
    if (stop.stop_requested()) return;
  }
}

void LoaderWorkers::take(std::int64_t k, Batch& batch) {
  std::exception_ptr error;
  {
    std::unique_lock lock(mutex_);
    Slot& taken = slot(k);
    made_.wait(lock, [&] { return taken.ready; });
    std::swap(batch, taken.batch);  // its vector serves the next batch in this slot
    error = std::exchange(taken.error, nullptr);
    taken.ready = false;
    ++next_taken_;
  }
  room_.notify_one();
  if (error) std::rethrow_exception(error);
}

}  // namespace cxtrain
