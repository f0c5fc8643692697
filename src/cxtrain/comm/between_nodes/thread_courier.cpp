#include "cxtrain/comm/between_nodes/thread_courier.h"

#include <chrono>
#include <exception>
#include <utility>

namespace cxtrain {

ThreadCourier::ThreadCourier(std::unique_ptr<Links> links, std::size_t chunk_bytes, bool spins,
                             Watchdog& watchdog)
    : links_(std::move(links)),
      watchdog_(watchdog),
      exchanges_{SliceExchange(*links_, chunk_bytes), PartExchange(*links_, chunk_bytes)},
      spins_(spins),
      thread_([this] { run(); }) {
  watchdog_.watch(*this);
}

ThreadCourier::~ThreadCourier() {
  watchdog_.forget(*this);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  links_->interrupt();
}

void ThreadCourier::post(std::unique_ptr<Errand> errand) {
  {
    const std::lock_guard lock(mutex_);
    errands_.push_back(std::move(errand));
  }
  changed_.notify_all();
}

void ThreadCourier::carry_now(Errand& errand) {
  const Watchdog::Wait wait(watchdog_, kOverNodes, Watchdog::Wait::Of::some_ranks);
  waited_for_ = true;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return errands_.empty(); });
  }
  try {
    carry(errand);
  } catch (const std::exception& error) {
    fail(error.what());
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_.load(); });  // the watchdog ends the process
  }
  waited_for_ = false;
}

void ThreadCourier::wait_until_finished(NodeBoard& board, std::uint64_t exchange, int couriers) {
  const Watchdog::Wait wait(watchdog_, kOverNodes);
  waited_for_ = true;
  board.wait_until_finished(exchange, couriers);
  waited_for_ = false;
}

void ThreadCourier::run() {
  for (;;) {
    Errand* errand = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !errands_.empty() || stop_; });
      if (stop_) return;
      errand = errands_.front().get();
    }
    try {
      carry(*errand);
    } catch (const std::exception& error) {
      return fail(error.what());
    }
    if (stop_) return;
    {
      const std::lock_guard lock(mutex_);
      errands_.pop_front();
    }
    changed_.notify_all();
  }
}

void ThreadCourier::carry(Errand& errand) {
  if (!errand.wait_for_values(stop_)) return;
  {
    const std::lock_guard lock(mutex_);
    on_the_way_ = true;
    ++carried_;
  }
  Exchange& exchange = errand.begin(exchanges_);
  while (!exchange.done() && !stop_) {
    if (!exchange.proceed()) wait_for_bytes();
  }
  if (stop_) return;
  errand.finished();
  const std::lock_guard lock(mutex_);
  on_the_way_ = false;
}

void ThreadCourier::wait_for_bytes() {
  // To wake a thread takes longer than the way of a chunk over a fast network.
  constexpr std::chrono::microseconds kPatience{100};
  if (spins_ && waited_for_) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      if (links_->proceed()) return;
      std::this_thread::yield();
    }
  }
  links_->wait();
}

void ThreadCourier::fail(const char* why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    error_ = why;
    failed_at_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
}

ThreadCourier::State ThreadCourier::look() noexcept {
  // A rank that ends closes its connections. The launcher, or the rank itself, reports the end first: a
  // report of a broken connection would hide the cause.
  constexpr std::chrono::seconds kTimeForOthers{2};
  const std::lock_guard lock(mutex_);
  State state;
  if (on_the_way_) state = {.operation = kOverNodes, .number = carried_};
  if (!error_.empty() && std::chrono::steady_clock::now() - failed_at_ > kTimeForOthers) state.error = error_;
  return state;
}

}  // namespace cxtrain
