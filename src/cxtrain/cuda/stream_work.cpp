#include "cxtrain/cuda/stream_work.h"

#include <exception>

namespace cxtrain {

StreamWork::StreamWork(Watchdog& watchdog, std::function<std::string()> find_error)
    : watchdog_(watchdog), find_error_(std::move(find_error)) {
  watchdog_.watch(*this);
}

StreamWork::~StreamWork() { watchdog_.forget(*this); }

void StreamWork::submitted(const char* name, const c10::Stream& stream) {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) spare_.emplace_back(stream.device_type());
  c10::Event end = std::move(spare_.back());
  spare_.pop_back();
  end.record(stream);
  operations_.push_back({name, ++count_, std::move(end)});
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
