#include "cxtrain/comm/between_nodes/thread_courier.h"

#include <chrono>
#include <exception>
#include <utility>

#include "cxtrain/comm/between_nodes/travel_log.h"

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
  // Where ranks share a core, another one may have to work before it posts its values of this sum.
  if (!spins_) std::this_thread::yield();
}

/// While it lives, its thread carries the errands in place of the courier's.
class ThreadCourier::TakeOver {
 public:
  explicit TakeOver(ThreadCourier& courier) : courier_(courier) {
    set(true);
    courier_.links_->interrupt();
    courier_.carrying_.lock();
    courier_.by_rank_ = true;
  }
  ~TakeOver() {
    courier_.by_rank_ = false;
    courier_.carrying_.unlock();
    set(false);
    courier_.changed_.notify_all();
  }
  TakeOver(const TakeOver&) = delete;
  TakeOver& operator=(const TakeOver&) = delete;

 private:
  void set(bool taken_over) {
    const std::lock_guard lock(courier_.mutex_);
    courier_.taken_over_ = taken_over;
  }
  ThreadCourier& courier_;
};

void ThreadCourier::wait_until_finished(NodeBoard& board, std::uint64_t exchange, int couriers) {
  const Watchdog::Wait wait(watchdog_, kOverNodes);
  if (!board.have_finished(exchange, couriers)) carry_here();
  board.wait_until_finished(exchange, couriers);
}

void ThreadCourier::carry_here() {
  try {
    const TakeOver here(*this);
    while (first() != nullptr) {
      if (!carry_first()) return;
    }
  } catch (const std::exception& error) {
    fail(error.what());
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_.load(); });  // the watchdog ends the process
  }
}

void ThreadCourier::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return (!errands_.empty() && !taken_over_) || stop_; });
      if (stop_) return;
    }
    try {
      const std::lock_guard carrying(carrying_);
      if (first() != nullptr) carry_first();
    } catch (const std::exception& error) {
      return fail(error.what());
    }
  }
}

Errand* ThreadCourier::first() {
  const std::lock_guard lock(mutex_);
  return errands_.empty() ? nullptr : errands_.front().get();
}

bool ThreadCourier::carry_first() {
  if (!carry(*first())) return false;
  const std::lock_guard lock(mutex_);
  errands_.pop_front();
  return true;
}

bool ThreadCourier::carry(Errand& errand) {
  if (under_way_ == nullptr) {
    if (!errand.wait_for_values(stop_)) return false;
    const std::lock_guard lock(mutex_);
    on_the_way_ = true;
    ++carried_;
    under_way_ = &errand.begin(exchanges_);
    began_ = TravelLog::begin();
  }
  while (!under_way_->done() && !stop_) {
    if (gives_way()) return false;
    if (!under_way_->proceed()) wait_for_bytes();
  }
  if (stop_) return false;
  under_way_ = nullptr;
  TravelLog::end(began_, errand.bytes());
  errand.finished();
  const std::lock_guard lock(mutex_);
  on_the_way_ = false;
  return true;
}

void ThreadCourier::wait_for_bytes() {
  constexpr std::chrono::milliseconds kPatience{20};
  if (spins_ && by_rank_) {
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
