#include "cxtrain/cuda/stream_work.h"

#include <algorithm>
#include <exception>

namespace cxtrain {

StreamWork::StreamWork(Watchdog& watchdog, std::function<std::string()> find_error)
    : watchdog_(watchdog), find_error_(std::move(find_error)) {
  watchdog_.watch(*this);
}

StreamWork::~StreamWork() { watchdog_.forget(*this); }

void StreamWork::submitted(const char* name, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  // An event is its device's once it has been recorded there.
  const auto spare = std::ranges::find_if(
      spare_, [&](const c10::Event& event) { return event.device_index() == stream.device_index(); });
  if (spare == spare_.end()) {
    operations_.push_back({name, ++count_, c10::Event(stream.device_type())});
  } else {
    operations_.push_back({name, ++count_, std::move(*spare)});
    spare_.erase(spare);
  }
  operations_.back().end.record(stream);
}

StreamWork::State StreamWork::look() noexcept {
  State state;
  try {
    state.error = find_error_();
    const std::lock_guard lock(mutex_);
    while (!operations_.empty() && operations_.front().end.query()) {
      spare_.push_back(std::move(operations_.front().end));
      operations_.pop_front();
    }
    if (operations_.empty()) return state;
    state.operation = operations_.front().name;
    state.number = operations_.front().number;
  } catch (const std::exception& error) {
    // The device itself has failed, and says so to whoever asks.
    state.error = error.what();
  }
  return state;
}

}  // namespace cxtrain
