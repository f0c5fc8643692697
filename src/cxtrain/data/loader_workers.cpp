#include "cxtrain/data/loader_workers.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <string>
#include <system_error>
#include <utility>

#include "cxtrain/base/error.h"

namespace cxtrain {
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

}  // namespace

LoaderWorkers::LoaderWorkers(Make make, std::int64_t first, std::int64_t end, int num_workers,
                             int prefetch_factor)
    : make_(std::move(make)),
      end_(end),
      next_made_(first),
      next_taken_(first),
      slots_(static_cast<std::size_t>(num_workers) * static_cast<std::size_t>(prefetch_factor)) {
  threads_.reserve(static_cast<std::size_t>(num_workers));
  try {
    for (int i = 0; i < num_workers; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  } catch (const std::exception& error) {  // std::system_error, or std::bad_alloc
    const auto* refusal = dynamic_cast<const std::system_error*>(&error);
    throw ConfigError("data.num_workers",
                      "of " + std::to_string(num_workers) + " threads only " +
                          std::to_string(threads_.size()) + " can be started: " +
                          (refusal != nullptr ? refusal->code().message() : "no memory is left"),
                      "ask for fewer, or raise the limits (ulimit -u, ulimit -v)");
  }
}

LoaderWorkers::~LoaderWorkers() {
  for (std::jthread& thread : threads_) thread.request_stop();  // all of them, before the first is waited for
}

void LoaderWorkers::work(const std::stop_token& stop) {
  stay_on_this_thread();  // the workers are the parallelism
  const auto has_room = [this] {
    return next_made_ == end_ || next_made_ - next_taken_ < static_cast<std::int64_t>(slots_.size());
  };
  for (;;) {
    std::int64_t k = 0;
    Batch batch;
    {
      std::unique_lock lock(mutex_);
      if (!room_.wait(lock, stop, has_room) || next_made_ == end_) return;
      k = next_made_++;
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
    }
    made_.notify_one();  // only the loader's own thread waits
    if (stop.stop_requested()) return;
  }
}

void LoaderWorkers::take(std::int64_t k, Batch& batch) {
  std::exception_ptr error;
  {
    std::unique_lock lock(mutex_);
    Slot& mine = slot(k);
    made_.wait(lock, [&] { return mine.ready; });
    std::swap(batch, mine.batch);  // its vector serves the next batch in this slot
    error = std::exchange(mine.error, nullptr);
    mine.ready = false;
    ++next_taken_;
  }
  room_.notify_one();
  if (error) std::rethrow_exception(error);
}

}  // namespace cxtrain
