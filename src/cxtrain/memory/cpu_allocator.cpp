#include "cxtrain/memory/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>

#include <cstdint>

#include "cxtrain/device/malloc_tuning.h"
#include "cxtrain/memory/block_cache.h"

namespace cxtrain {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

class CachingCpuAllocator final : public c10::Allocator {
 public:
  /// Outlives every tensor, static ones included: never destroyed.
  static CachingCpuAllocator& instance() {
    static auto* const allocator = new CachingCpuAllocator;
    return *allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes < kLarge ? small_->raw_allocate(bytes) : cache_.take(bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  /// oneDNN's convolutions allocate raw memory, for which every block needs the same deleter.
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

 private:
  CachingCpuAllocator() : small_(c10::GetDefaultCPUAllocator()) {}

  static void release(void* data) {
    CachingCpuAllocator& self = instance();
    const bool on_page = reinterpret_cast<std::uintptr_t>(data) % BlockCache::kPage == 0;
    if (on_page && self.cache_.give(data)) return;
    self.small_->raw_deallocate(data);
  }

  c10::Allocator* small_;
  BlockCache cache_;
};

}  // namespace

bool keep_freed_memory() {
  if (!tune_malloc()) return false;
  c10::SetCPUAllocator(&CachingCpuAllocator::instance(), /*priority=*/1);
  return true;
}

}  // namespace cxtrain
