#include "cxtrain/memory/malloc_tuning.h"

#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cxtrain/memory/block_cache.h"

namespace cxtrain {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;

/// The pool in use, and the memory that tensors still have of this one and of earlier ones.
class Pools {
 public:
  void use(std::shared_ptr<TensorPool> pool) {
    const std::lock_guard lock(mutex_);
    pool_ = std::move(pool);
    in_use_.store(pool_ != nullptr, std::memory_order_release);
  }

  /// Null where no pool has memory of this size.
  void* take(std::size_t bytes) {
    if (bytes < TensorPool::kSmallest || !in_use_.load(std::memory_order_acquire)) return nullptr;
    const std::lock_guard lock(mutex_);
    void* const memory = pool_ != nullptr ? pool_->take(bytes) : nullptr;
    if (memory == nullptr) return nullptr;
    owners_.emplace(memory, pool_);
    taken_.store(true, std::memory_order_release);
    return memory;
  }

  /// False, and nothing done, when the address is in no pool.
  bool give(void* memory) noexcept {
    if (!taken_.load(std::memory_order_acquire)) return false;
    const std::lock_guard lock(mutex_);
    const auto owner = owners_.extract(memory);
    if (owner.empty()) return false;
    owner.mapped()->give(memory);
    taken_.store(!owners_.empty(), std::memory_order_release);
    return true;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<TensorPool> pool_;
  std::unordered_map<void*, std::shared_ptr<TensorPool>> owners_;
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

  Pools& pools() { return pools_; }
  void keep_large_blocks() { keeps_ = true; }
  void give_back_large_blocks() noexcept { cache_.clear(); }

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
  Pools pools_;
};

/// The file of the library that `malloc` was linked to at load time; empty when unknown.
std::string library_of_malloc() {
  Dl_info info{};
  void* function = dlsym(RTLD_DEFAULT, "malloc");
  if (function == nullptr || dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

}  // namespace

bool keep_freed_memory() {
  CachingCpuAllocator& allocator = CachingCpuAllocator::instance();
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
  if (!tune_malloc()) return false;
  allocator.keep_large_blocks();
  return true;
}

void give_back_freed_memory() {
  CachingCpuAllocator::instance().give_back_large_blocks();
  malloc_trim(0);
}

bool tensor_pools_in_effect() { return c10::GetCPUAllocator() == &CachingCpuAllocator::instance(); }

UseTensorPool::UseTensorPool(std::shared_ptr<TensorPool> pool) {
  CachingCpuAllocator::instance().pools().use(std::move(pool));
}
UseTensorPool::~UseTensorPool() { CachingCpuAllocator::instance().pools().use(nullptr); }

std::string reason_not_to_tune_malloc(std::span<const std::string> environment,
                                      const std::string& malloc_library) {
  for (const std::string& entry : environment) {
    if (entry.starts_with("MALLOC_") || entry.starts_with("GLIBC_TUNABLES=")) {
      return entry.substr(0, entry.find('=')) + " is set";
    }
  }
  const std::string_view path = malloc_library;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (file.starts_with("libc.so") || file.starts_with("libc-")) return "";
  return "malloc comes from " + (file.empty() ? "an unknown library" : std::string(file));
}

bool tune_malloc() {
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    environment.emplace_back(*entry);
  if (!reason_not_to_tune_malloc(environment, library_of_malloc()).empty()) return false;
  constexpr int kGrowth = 64 << 20;
  constexpr int kNever = -1;  // mallopt(3): disables trimming
  return mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, kNever) == 1 &&
         mallopt(M_TOP_PAD, kGrowth) == 1;
}

}  // namespace cxtrain
