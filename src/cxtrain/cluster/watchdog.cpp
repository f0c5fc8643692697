#include "cxtrain/cluster/watchdog.h"

namespace cxtrain {

Watchdog::Watchdog(Bark bark) : bark_(std::move(bark)) {}
Watchdog::~Watchdog() = default;

void Watchdog::set_timeout(double seconds) {
  timeout_seconds_.store(seconds);
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Watchdog::Wait::Wait(Watchdog& watchdog, const char* operation) : watchdog_(watchdog) {
  watchdog_.since_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  watchdog_.operation_.store(operation, std::memory_order_release);
}

void Watchdog::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (
      !stopped_.wait_for(lock, stop, std::chrono::milliseconds(250), [&] { return stop.stop_requested(); })) {
    const char* operation = operation_.load(std::memory_order_acquire);
    if (operation == nullptr) continue;
    const auto since = Clock::time_point(Clock::duration(since_.load(std::memory_order_relaxed)));
    const std::chrono::duration<double> waited = Clock::now() - since;
    // The wait may have ended, and another begun, between the two loads: then `since` is young.
    if (waited.count() > timeout_seconds_.load()) bark_(operation, waited.count());
  }
}

}  // namespace cxtrain
