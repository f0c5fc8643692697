#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

/// Freed host memory that the process keeps, instead of giving it back to the kernel.
///
/// A training step frees and requests equal blocks over and over. glibc gives large blocks back to the kernel
/// each time. The page faults of new blocks are up to a third of a step of a convolutional network.
namespace cxtrain {

/// Makes the process keep freed memory: LibTorch's CPU tensors of a megabyte or more by their size
/// (BlockCache), smaller tensors and all else in malloc (`tune_malloc`). Programs call it once, at their
/// start, before there is a second thread: both are settings of the process. Returns whether memory is kept;
/// false if the user has set up malloc in another way. `UseTensorPool` has an effect after this call in any
/// case.
bool keep_freed_memory();

/// Gives the freed memory that the process keeps back to the kernel. For use where much memory has been freed
/// that nobody will ask for again; later requests cost page faults.
void give_back_freed_memory();

/// Makes glibc's malloc keep freed memory: no mmap for large blocks, no trimming, growth by 64 MiB. Does
/// nothing if there is a reason against it. Returns whether it changed malloc. Called once at start, before
/// other threads exist.
bool tune_malloc();

/// Returns why malloc must not be tuned; empty if it may be. The reasons: the environment (`NAME=value`
/// entries) sets up malloc itself (MALLOC_*, GLIBC_TUNABLES), or `malloc` comes from `malloc_library`, which
/// is not glibc. Pure.
std::string reason_not_to_tune_malloc(std::span<const std::string> environment,
                                      const std::string& malloc_library);

/// Memory reserved for CPU tensors of certain sizes. The allocator calls it from one thread at a time.
class TensorPool {
 public:
  /// Smallest size in bytes. Smaller tensors are not worth a page of their own: the allocator never takes
  /// them from a pool.
  static constexpr std::size_t kSmallest = std::size_t{32} << 10;

  virtual ~TensorPool() = default;
  /// Returns memory of exactly `bytes` that begins on a page; null if the pool has none, or none left.
  virtual void* take(std::size_t bytes) = 0;
  /// Takes back memory that `take` has returned.
  virtual void give(void* memory) noexcept = 0;
};

/// While it lives, new CPU tensors of any thread lie in the pool, if the pool has memory of exactly their
/// size. One at a time. A tensor may outlive this object and the caller's pointer to the pool; the pool lives
/// as long as a tensor in it.
class UseTensorPool {
 public:
  explicit UseTensorPool(std::shared_ptr<TensorPool> pool);
  ~UseTensorPool();
  UseTensorPool(const UseTensorPool&) = delete;
  UseTensorPool& operator=(const UseTensorPool&) = delete;
};

/// Returns whether `UseTensorPool` has an effect: after `keep_freed_memory`, unless LibTorch got another
/// allocator since.
bool tensor_pools_in_effect();

}  // namespace cxtrain
