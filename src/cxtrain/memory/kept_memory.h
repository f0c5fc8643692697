#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

/// Freed host memory that the process keeps, instead of giving it back to the kernel.
///
/// A training step frees and asks for the same blocks over and over. glibc gives large ones back to the
/// kernel each time, and the page faults of having them again are up to a third of a step of a convolutional
/// network.
namespace cxtrain {

/// Lets the process keep what it frees: LibTorch's CPU tensors of a megabyte or more by their size
/// (BlockCache), smaller ones and everything else in malloc (`tune_malloc`). To be called by programs, once,
/// at their start, before there is a second thread: both are settings of the process. Returns whether memory
/// is kept; it is not where the user has set up malloc in another way. `UseTensorPool` has an effect from
/// here on in any case.
bool keep_freed_memory();

/// Tells glibc's malloc to keep what is freed: no mmap for large blocks, no trimming, growth by 64 MiB. Does
/// nothing where there is a reason not to. Returns whether it did. Called once at start, before other threads
/// exist.
bool tune_malloc();

/// Why malloc must not be tuned, or empty where it may be: the environment (`NAME=value` entries) sets up
/// malloc itself (MALLOC_*, GLIBC_TUNABLES), or `malloc` comes from `malloc_library`, which is not glibc.
/// Pure.
std::string reason_not_to_tune_malloc(std::span<const std::string> environment,
                                      const std::string& malloc_library);

/// Memory that somebody has set aside for CPU tensors of certain sizes. The allocator calls it from one
/// thread at a time.
class TensorPool {
 public:
  /// Smaller tensors are not worth a page of their own: no pool is asked for them.
  static constexpr std::size_t kSmallest = std::size_t{32} << 10;

  virtual ~TensorPool() = default;
  /// Memory of exactly `bytes`, which begins on a page; null where the pool has none, or none left.
  virtual void* take(std::size_t bytes) = 0;
  /// Takes memory back that `take` has given out.
  virtual void give(void* memory) noexcept = 0;
};

/// While it lives, CPU tensors that are made on any thread lie in the pool, where it has memory of just their
/// size. One at a time. A tensor may outlive this and the caller's pointer to the pool, which lives as long
/// as a tensor in it.
class UseTensorPool {
 public:
  explicit UseTensorPool(std::shared_ptr<TensorPool> pool);
  ~UseTensorPool();
  UseTensorPool(const UseTensorPool&) = delete;
  UseTensorPool& operator=(const UseTensorPool&) = delete;
};

/// Whether `UseTensorPool` has an effect: after `keep_freed_memory`, unless LibTorch was given another
/// allocator since.
bool tensor_pools_in_effect();

}  // namespace cxtrain
