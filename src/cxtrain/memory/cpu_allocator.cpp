#include "cxtrain/memory/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>

#include <memory>

#include "cxtrain/memory/block_cache.h"

namespace cxtrain {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

class CachingCpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < kLarge) return small_->allocate(bytes);
    auto owned = std::make_unique<Owned>(Owned{cache_, cache_.take(bytes)});
    void* data = owned->block.data;
    return {data, owned.release(), &release, c10::Device(c10::DeviceType::CPU)};
  }

  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

 private:
  struct Owned {
    BlockCache& cache;
    BlockCache::Block block;
  };
  static void release(void* context) {
    const std::unique_ptr<Owned> owned(static_cast<Owned*>(context));
    owned->cache.give(owned->block);
  }

  c10::Allocator* small_ = c10::GetDefaultCPUAllocator();
  BlockCache cache_;
};

}  // namespace

void use_caching_cpu_allocator() {
  // Outlives every tensor, static ones included: never destroyed.
  static auto* const allocator = new CachingCpuAllocator;
  c10::SetCPUAllocator(allocator, /*priority=*/1);
}

}  // namespace cxtrain
