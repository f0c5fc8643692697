#include "support/fake_device/timeline.h"

#include <chrono>
#include <stdexcept>

namespace cxtrain::test {

std::recursive_mutex& fake_mutex() {
  static auto* const mutex = new std::recursive_mutex;  // outlives tensors that static objects keep
  return *mutex;
}

std::string to_text(const Operation& operation) {
  return operation.name + " on " + operation.stream.device().str() + ", stream " +
         std::to_string(operation.stream.id());
}

Timeline& Timeline::instance() {
  static auto* const timeline = new Timeline;
  return *timeline;
}

FakeStream& Timeline::at(const c10::Stream& stream) {
  auto& slot = streams_[{stream.device_index(), stream.id()}];
  if (!slot) slot = std::make_unique<FakeStream>(FakeStream{stream, streams_.size() - 1, {}, 0});
  return *slot;
}

FakeStream& Timeline::by_handle(const void* handle) {
  for (const auto& [key, stream] : streams_) {
    if (stream.get() == handle) return *stream;
  }
  throw std::invalid_argument("this is no stream of a fake device");
}

Operation Timeline::launch(std::string name, FakeStream& stream) {
  stream.clock.join(host_);
  const std::uint64_t number = stream.clock.tick(stream.index);
  return {std::move(name), stream.stream, stream.index, number};
}

VectorClock Timeline::all_streams(c10::DeviceIndex device) const {
  VectorClock all;
  for (const auto& [key, stream] : streams_) {
    if (key.first == device) all.join(stream->clock);
  }
  return all;
}

bool Timeline::finished(const VectorClock& clock) const {
  for (const auto& [key, stream] : streams_) {
    if (stream->held_from != 0 && clock.at(stream->index) >= stream->held_from) return false;
  }
  return true;
}

void Timeline::wait(FakeLock& lock, const VectorClock& clock, const std::string& what) {
  if (!released_.wait_for(lock, std::chrono::duration<double>(wait_limit_seconds),
                          [&] { return finished(clock); }))
    throw std::runtime_error("fake device: " + what + " waits for a held stream, which nobody released");
}

void Timeline::hold(FakeStream& stream) {
  if (stream.held_from == 0) stream.held_from = launch("hold", stream).number;
}

void Timeline::release(FakeStream& stream) {
  stream.held_from = 0;
  released_.notify_all();
}

void Timeline::release_all() {
  for (const auto& [key, stream] : streams_) stream->held_from = 0;
  released_.notify_all();
}

}  // namespace cxtrain::test
