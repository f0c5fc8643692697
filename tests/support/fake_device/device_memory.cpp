#include "support/fake_device/device_memory.h"

#include <cstdlib>
#include <cstring>

#include "support/fake_device/fake_device.h"
#include "support/fake_device/guard.h"
#include "support/fake_device/late_copies.h"

namespace cxtrain::test {

using Stats = c10::CachingDeviceAllocator::DeviceStats;

/// An allocation: what to give back when it is freed.
struct DeviceMemory::Block {
  c10::DeviceIndex device;
  std::size_t bytes;
  void* begin;
  c10::DataPtr adopted;  ///< in place of memory of its own
};

namespace {

// CUDA's caching allocator aligns blocks to 512 bytes; kernels of the CPU do best with 64.
constexpr std::size_t kAlignment = 64;
constexpr int kNonsense = 0xFF;  // as a float: not a number

/// What the statistics say of an allocation, in all places that count bytes.
template <typename Change>
void count(Stats& stats, Change change) {
  for (auto* const bytes :
       {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes})
    change((*bytes)[0], true);
  for (auto* const blocks : {&stats.allocation, &stats.segment, &stats.active}) change((*blocks)[0], false);
}

}  // namespace

DeviceMemory& DeviceMemory::instance() {
  static auto* const memory = new DeviceMemory;  // tensors of static objects are freed late
  return *memory;
}

void DeviceMemory::set_devices(int count) { devices_.resize(static_cast<std::size_t>(count)); }

void DeviceMemory::set_capacity(c10::DeviceIndex device, std::size_t bytes) { at(device).capacity = bytes; }

DeviceMemory::Device& DeviceMemory::at(c10::DeviceIndex device) {
  TORCH_CHECK(device >= 0 && static_cast<std::size_t>(device) < devices_.size(),
              "there is no fake:", static_cast<int>(device));
  return devices_[static_cast<std::size_t>(device)];
}

c10::DataPtr DeviceMemory::allocate(std::size_t bytes) {
  return allocate_on(FakeGuard::instance().getDevice().index(), bytes);
}

c10::DataPtr DeviceMemory::allocate_on(c10::DeviceIndex device, std::size_t bytes) {
  return adopt(device, bytes, {});
}

c10::DataPtr DeviceMemory::adopt(c10::DeviceIndex device, std::size_t bytes, c10::DataPtr memory) {
  const c10::Device on(c10::DeviceType::PrivateUse1, device);
  if (bytes == 0) return {nullptr, nullptr, &free, on};
  const FakeLock lock(fake_mutex());
  Device& state = at(device);
  const auto used = static_cast<std::size_t>(state.stats.allocated_bytes[0].current);
  if (used + bytes > state.capacity) {
    ++state.stats.num_ooms;
    TORCH_CHECK_WITH(OutOfMemoryError, false, on, " out of memory. Tried to allocate ", bytes, " bytes; ",
                     used, " of ", state.capacity, " are in use.");
  }
  void* begin = memory.get();
  if (begin == nullptr) {
    begin = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    TORCH_CHECK_WITH(OutOfMemoryError, begin != nullptr, "the host has no memory for ", on);
    std::memset(begin, kNonsense, bytes);
  }
  count(state.stats, [&](auto& stat, bool of_bytes) { stat.increase(of_bytes ? bytes : 1); });
  OrderChecker::instance().add_memory(begin, bytes,
                                      &Timeline::instance().at(FakeGuard::instance().getStream(on)));
  return {begin, new Block{device, bytes, begin, std::move(memory)}, &free, on};
}

void DeviceMemory::free(void* context) {
  if (context == nullptr) return;
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  const FakeLock lock(fake_mutex());
  LateCopies::instance().need(ByteSet::interval(block->begin, block->bytes));
  OrderChecker::instance().remove_memory(block->begin);
  count(instance().at(block->device).stats,
        [&](auto& stat, bool of_bytes) { stat.decrease(of_bytes ? block->bytes : 1); });
  if (!block->adopted) std::free(block->begin);
}

c10::DeleterFnPtr DeviceMemory::raw_deleter() const { return nullptr; }

void DeviceMemory::copy_data(void* to, const void* from, std::size_t bytes) const {
  default_copy_data(to, from, bytes);
}

void DeviceMemory::emptyCache(c10::MempoolId_t) {}

void DeviceMemory::recordStream(const c10::DataPtr& memory, c10::Stream stream) {
  if (!memory) return;
  const FakeLock lock(fake_mutex());
  OrderChecker::instance().record_stream(memory.get(), Timeline::instance().at(stream));
}

Stats DeviceMemory::getDeviceStats(c10::DeviceIndex device) {
  const FakeLock lock(fake_mutex());
  return at(device).stats;
}

void DeviceMemory::resetAccumulatedStats(c10::DeviceIndex device) {
  const FakeLock lock(fake_mutex());
  Stats& stats = at(device).stats;
  count(stats, [](auto& stat, bool) { stat.reset_accumulated(); });
  stats.num_ooms = 0;
}

void DeviceMemory::resetPeakStats(c10::DeviceIndex device) {
  const FakeLock lock(fake_mutex());
  count(at(device).stats, [](auto& stat, bool) { stat.reset_peak(); });
}

std::pair<std::size_t, std::size_t> DeviceMemory::getMemoryInfo(c10::DeviceIndex device) {
  const FakeLock lock(fake_mutex());
  const Device& state = at(device);
  return {state.capacity - static_cast<std::size_t>(state.stats.allocated_bytes[0].current), state.capacity};
}

}  // namespace cxtrain::test
