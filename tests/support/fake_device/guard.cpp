#include "support/fake_device/guard.h"

#include <array>
#include <atomic>
#include <chrono>

#include "support/fake_device/device_memory.h"
#include "support/fake_device/host.h"

namespace cxtrain::test {

namespace {

constexpr int kMaxDevices = 16;
constexpr unsigned kPool = 32;  // CUDA's, of each priority

/// A point in a stream: all that came before it.
struct FakeEvent {
  VectorClock clock;
  c10::DeviceIndex device;
  bool timed;
  std::chrono::steady_clock::time_point time;
};

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kMaxDevices> current_streams{};

c10::Stream stream_of(c10::Device device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, device, id);
}

}  // namespace

FakeGuard& FakeGuard::instance() {
  static auto* const guard = new FakeGuard;
  return *guard;
}

c10::Device FakeGuard::checked(c10::Device device) const {
  TORCH_CHECK(device.type() == type(), device, " is no fake device");
  if (!device.has_index()) device.set_index(current_device);
  TORCH_CHECK(device.index() >= 0 && device.index() < count_, device, ": there are ",
              static_cast<int>(count_), " fake devices");
  return device;
}

c10::Device FakeGuard::exchangeDevice(c10::Device device) const {
  const c10::Device before = getDevice();
  setDevice(device);
  return before;
}

c10::Device FakeGuard::getDevice() const { return {type(), current_device}; }

void FakeGuard::setDevice(c10::Device device) const { current_device = checked(device).index(); }

void FakeGuard::uncheckedSetDevice(c10::Device device) const noexcept { current_device = device.index(); }

c10::DeviceCapability FakeGuard::getDeviceCapability(c10::Device) const { return {}; }

c10::Stream FakeGuard::getStream(c10::Device device) const {
  device = checked(device);
  return stream_of(device, current_streams[static_cast<std::size_t>(device.index())]);
}

c10::Stream FakeGuard::getDefaultStream(c10::Device device) const { return stream_of(checked(device), 0); }

c10::Stream FakeGuard::getStreamFromGlobalPool(c10::Device device, bool high_priority) const {
  static std::array<std::array<std::atomic<unsigned>, 2>, kMaxDevices> used{};
  device = checked(device);
  const unsigned turn = used[static_cast<std::size_t>(device.index())][high_priority ? 1 : 0]++ % kPool;
  return stream_of(device, 1 + (high_priority ? kPool : 0) + turn);
}

c10::Stream FakeGuard::getNewStream(c10::Device device, int priority) const {
  return getStreamFromGlobalPool(device, priority < 0);
}

c10::Stream FakeGuard::exchangeStream(c10::Stream stream) const {
  const c10::Stream before = getStream(stream.device());
  current_streams[static_cast<std::size_t>(stream.device_index())] = stream.id();
  return before;
}

void* FakeGuard::getStreamNativeHandle(c10::Stream stream) const {
  const FakeLock lock(fake_mutex());
  return &Timeline::instance().at(stream);
}

bool FakeGuard::queryStream(const c10::Stream& stream) const {
  const FakeLock lock(fake_mutex());
  return host_asks(Timeline::instance().at(stream).clock);
}

void FakeGuard::synchronizeStream(const c10::Stream& stream) const {
  FakeLock lock(fake_mutex());
  host_waits(lock, Timeline::instance().at(stream).clock, "synchronize stream");
}

void FakeGuard::synchronizeDevice(c10::DeviceIndex device) const {
  FakeLock lock(fake_mutex());
  device = checked({type(), device}).index();
  host_waits(lock, Timeline::instance().all_streams(device), "synchronize device");
}

void FakeGuard::recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const {
  DeviceMemory::instance().recordStream(memory, stream);
}

void FakeGuard::destroyEvent(void* event, c10::DeviceIndex) const noexcept {
  delete static_cast<FakeEvent*>(event);
}

void FakeGuard::record(void** event, const c10::Stream& stream, c10::DeviceIndex device,
                       c10::EventFlag flag) const {
  TORCH_CHECK(device == -1 || device == stream.device_index(), "an event of fake:", static_cast<int>(device),
              " cannot be recorded on a stream of ", stream.device());
  const FakeLock lock(fake_mutex());
  if (*event == nullptr) *event = new FakeEvent{{}, stream.device_index(), false, {}};
  auto& state = *static_cast<FakeEvent*>(*event);
  FakeStream& on = Timeline::instance().at(stream);
  on.clock.join(Timeline::instance().host());
  state.clock = on.clock;
  state.timed = flag == c10::EventFlag::BACKEND_DEFAULT;
  state.time = std::chrono::steady_clock::now();
}

void FakeGuard::block(void* event, const c10::Stream& stream) const {
  if (event == nullptr) return;
  const FakeLock lock(fake_mutex());
  Timeline::instance().at(stream).clock.join(static_cast<FakeEvent*>(event)->clock);
}

bool FakeGuard::queryEvent(void* event) const {
  if (event == nullptr) return true;
  const FakeLock lock(fake_mutex());
  return host_asks(static_cast<FakeEvent*>(event)->clock);
}

void FakeGuard::synchronizeEvent(void* event) const {
  if (event == nullptr) return;
  FakeLock lock(fake_mutex());
  host_waits(lock, static_cast<FakeEvent*>(event)->clock, "synchronize event");
}

double FakeGuard::elapsedTime(void* begin, void* end, c10::DeviceIndex) const {
  TORCH_CHECK(begin != nullptr && end != nullptr, "both events have to be recorded");
  const auto& from = *static_cast<FakeEvent*>(begin);
  const auto& to = *static_cast<FakeEvent*>(end);
  TORCH_CHECK(from.timed && to.timed, "both events have to be made with EventFlag::BACKEND_DEFAULT");
  TORCH_CHECK(from.device == to.device, "both events have to be of one device");
  const FakeLock lock(fake_mutex());
  TORCH_CHECK(Timeline::instance().finished(from.clock) && Timeline::instance().finished(to.clock),
              "both events have to have ended");
  return std::chrono::duration<double, std::milli>(to.time - from.time).count();
}

}  // namespace cxtrain::test
