#include "cxtrain/memory/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "cxtrain/device/malloc_tuning.h"
#include "cxtrain/memory/block_cache.h"

namespace cxtrain {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

/// The pool in use, and the places that tensors still have in this one and in earlier ones.
class PoolPlaces {
 public:
  void use(std::shared_ptr<MemPool> pool) {
    const std::lock_guard lock(mutex_);
    pool_ = std::move(pool);
    in_use_.store(pool_ != nullptr, std::memory_order_release);
  }

  /// Null where no pool has a place for it.
  void* take(std::size_t bytes) {
    if (bytes < MemPool::kSmallest || !in_use_.load(std::memory_order_acquire)) return nullptr;
    const std::lock_guard lock(mutex_);
    void* const place = pool_ != nullptr ? pool_->take(bytes) : nullptr;
    if (place == nullptr) return nullptr;
    owners_.emplace(place, pool_);
    taken_.store(true, std::memory_order_release);
    return place;
  }

  /// False, and nothing done, when the address is no place of a pool.
  bool give(void* place) noexcept {
    if (!taken_.load(std::memory_order_acquire)) return false;
    const std::lock_guard lock(mutex_);
    const auto owner = owners_.extract(place);
    if (owner.empty()) return false;
    owner.mapped()->give(place);
    taken_.store(!owners_.empty(), std::memory_order_release);
    return true;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<MemPool> pool_;
  std::unordered_map<void*, std::shared_ptr<MemPool>> owners_;
  std::atomic<bool> in_use_ = false, taken_ = false;  ///< so that others need no lock
};

class CachingCpuAllocator final : public c10::Allocator {
 public:
  /// Outlives every tensor, static ones included: never destroyed.
  static CachingCpuAllocator& instance() {
    static auto* const allocator = new CachingCpuAllocator;
    return *allocator;
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = pools_.take(bytes);
    if (data == nullptr) data = keeps_ && bytes >= kLarge ? cache_.take(bytes) : small_->raw_allocate(bytes);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  PoolPlaces& pools() { return pools_; }
  void keep_large_blocks() { keeps_ = true; }

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
    if (on_page && (self.pools_.give(data) || self.cache_.give(data))) return;
    self.small_->raw_deallocate(data);
  }

  c10::Allocator* small_;
  bool keeps_ = false;
  BlockCache cache_;
  PoolPlaces pools_;
};

}  // namespace

bool keep_freed_memory() {
  CachingCpuAllocator& allocator = CachingCpuAllocator::instance();
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
  if (!tune_malloc()) return false;
  allocator.keep_large_blocks();
  return true;
}

bool mem_pools_in_effect() { return c10::GetCPUAllocator() == &CachingCpuAllocator::instance(); }

UseMemPool::UseMemPool(std::shared_ptr<MemPool> pool) {
  CachingCpuAllocator::instance().pools().use(std::move(pool));
}
UseMemPool::~UseMemPool() { CachingCpuAllocator::instance().pools().use(nullptr); }

}  // namespace cxtrain
