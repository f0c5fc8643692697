#pragma once

#include <memory>

#include "cxtrain/memory/mem_pool.h"

namespace cxtrain {

/// Lets the process keep what it frees, instead of giving it back to the kernel and faulting it in again at
/// each step: LibTorch's CPU tensors of a megabyte or more by size (BlockCache), smaller blocks and
/// everything else by malloc
/// (`tune_malloc`). Where the user has a wish of their own about malloc, blocks go as they wish. For programs
/// to call, once, at their start, before there is a second thread: both are settings of the process. Returns
/// whether memory is kept. `UseMemPool` has an effect from here on in any case.
bool keep_freed_memory();

/// Whether `UseMemPool` has an effect: after `keep_freed_memory`, unless LibTorch was given another allocator
/// since.
bool mem_pools_in_effect();

/// While it lives, CPU tensors that are made on any thread lie in the pool, if it has a place of just their
/// size. One at a time. A tensor may outlive this, and the caller's hold on the pool.
class UseMemPool {
 public:
  explicit UseMemPool(std::shared_ptr<MemPool> pool);
  ~UseMemPool();
  UseMemPool(const UseMemPool&) = delete;
  UseMemPool& operator=(const UseMemPool&) = delete;
};

}  // namespace cxtrain
