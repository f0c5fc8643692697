#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cxtrain/comm/node/shared_memory.h"
#include "cxtrain/comm/reduce_kernels.h"
#include "cxtrain/memory/kept_memory.h"

namespace cxtrain {

/// Memory that the ranks of a node share, cut into slots for tensors of known sizes (torch's word for the
/// same on GPUs: torch.cuda.MemPool). While `UseTensorPool` has it in use, tensors are made there, and
/// whoever has mapped the memory as well sees them.
///
/// Each size has as many slots as it was named, and one more for a passing tensor of that size. Tensors
/// smaller than `kSmallest` have none. One thread at a time calls it; `contains` may be called by any.
class MemPool final : public TensorPool {
 public:
  /// What a pool for tensors of `sizes` bytes takes; 0 where all are small.
  static std::size_t bytes_for(std::span<const std::size_t> sizes);
  /// `memory` has `bytes_for(sizes)` bytes, and lives as long as the pool.
  MemPool(std::shared_ptr<SharedMemory> memory, std::span<const std::size_t> sizes);
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;

  void* take(std::size_t bytes) override;
  void give(void* slot) noexcept override;

  bool contains(const void* address) const noexcept {
    return address >= memory_->data() && address < memory_->data() + memory_->bytes();
  }
  /// Slots that are taken.
  std::size_t taken() const { return taken_; }

 private:
  struct Size {
    std::size_t bytes;
    std::byte* end;
    std::vector<void*> free;  ///< the last one given back is at the end, and next: caches may still hold it
  };

  std::shared_ptr<SharedMemory> memory_;
  std::vector<Size> sizes_;  ///< ascending
  std::size_t taken_ = 0;
};

/// What a communicator can do besides, where the ranks of a node map each other's memory. It belongs to the
/// communicator (`Communicator::node_memory`) and ends with it; memory that it gave out lives on. Called by
/// the thread that calls the communicator, and with the same errors.
class NodeMemory {
 public:
  virtual ~NodeMemory() = default;

  /// A pool for tensors of `sizes` bytes, which `all_reduce_slices` reduces where they lie: one size for each
  /// slice of the longest list that it will be called with. Collective: every rank asks for the same. A new
  /// pool replaces the last one. Null where there is none, which may be so on some ranks only.
  virtual std::shared_ptr<MemPool> mem_pool(std::span<const std::size_t> sizes) = 0;

  /// A slice of memory from `Communicator::allocate`, which begins at element `offset`. `values` is a dense
  /// tensor of the same dtype with its elements: the slice itself, or a tensor in the pool.
  struct Slice {
    std::int64_t offset;
    at::Tensor values;
  };
  /// Combines slices of `memory` (from `allocate`) over all ranks, as `Communicator::all_reduce` would
  /// combine the whole; the result goes into each slice's `values`. What lies between the slices is undefined
  /// afterwards. Every rank passes slices of the same offsets and sizes, in ascending order. Whether the
  /// values of a slice lie in `memory` or in the pool may differ from rank to rank.
  virtual void all_reduce_slices(const at::Tensor& memory, std::span<const Slice> slices, ReduceOp op) = 0;
};

}  // namespace cxtrain
