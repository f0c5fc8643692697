#include "cxtrain/comm/between_nodes/travel_log.h"

#include "cxtrain/base/clock.h"

namespace cxtrain {
namespace {

std::int64_t nanoseconds_since_1970() { return static_cast<std::int64_t>(seconds_since_1970() * 1e9); }

}  // namespace

std::atomic<TravelLog*> TravelLog::running_{nullptr};
std::mutex TravelLog::mutex_;

TravelLog::TravelLog() { running_ = this; }

TravelLog::~TravelLog() {
  const std::lock_guard lock(mutex_);
  running_ = nullptr;
}

std::vector<TravelLog::Travel> TravelLog::travels() const {
  const std::lock_guard lock(mutex_);
  return travels_;
}

std::int64_t TravelLog::begin() noexcept {
  return running_.load(std::memory_order_relaxed) == nullptr ? 0 : nanoseconds_since_1970();
}

void TravelLog::end(std::int64_t begin, std::size_t bytes) {
  if (begin == 0) return;
  const std::lock_guard lock(mutex_);
  if (TravelLog* const log = running_) log->travels_.push_back({begin, nanoseconds_since_1970(), bytes});
}

}  // namespace cxtrain
