#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cxtrain/comm/node/node_arena.h"
#include "cxtrain/comm/reduce_kernels.h"
#include "cxtrain/memory/malloc_tuning.h"

namespace cxtrain {

/// Memory that the ranks of a node share, cut into slots for tensors of known sizes (torch's name of such
/// memory on GPUs: torch.cuda.MemPool). While `UseTensorPool` uses the pool, new tensors lie in it, and every
/// process that has mapped the memory sees them.
///
/// A size that is listed N times has N slots, and one more for a temporary tensor of that size. Tensors
/// smaller than `kSmallest` have no slot. One thread at a time calls the pool; any thread may call
/// `contains`.
class MemPool final : public TensorPool {
 public:
  /// Returns the bytes of a pool for tensors of `sizes` bytes; 0 if all tensors are small.
  static std::size_t bytes_for(std::span<const std::size_t> sizes);
  /// `memory` has `bytes_for(sizes)` bytes, and lives as long as the pool.
  MemPool(std::shared_ptr<std::byte> memory, std::span<const std::size_t> sizes);
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;

  void* take(std::size_t bytes) override;
  void give(void* slot) noexcept override;

  bool contains(const void* address) const noexcept {
    return address >= memory_.get() && address < sizes_.back().end;
  }
  /// Number of slots that are taken.
  std::size_t taken() const { return taken_; }

 private:
  struct Size {
    std::size_t bytes;
    std::byte* end;
    std::byte* unused;        ///< the first slot that nobody has taken yet; none lies before
    std::vector<void*> free;  ///< used from the end: caches may still hold the slot given back last
  };

  std::shared_ptr<std::byte> memory_;
  std::vector<Size> sizes_;  ///< the largest first: large slots begin on huge pages
  std::size_t taken_ = 0;
};

/// Further operations of a communicator if the ranks of a node map each other's memory. The object belongs to
/// the communicator (`Communicator::node_memory`) and ends with it; memory that it gave out lives on. Called
/// by the thread that calls the communicator. Throws the communicator's errors.
class NodeMemory {
 public:
  virtual ~NodeMemory() = default;

  /// Makes a pool for tensors of `sizes` bytes, which `all_reduce_slices` reduces in place. `sizes`: one size
  /// for each slice of the longest list that `all_reduce_slices` will get. Collective: every rank passes
  /// equal sizes. A new pool replaces the last pool. Null if no pool can be made, perhaps on some ranks only.
  virtual std::shared_ptr<MemPool> mem_pool(std::span<const std::size_t> sizes) = 0;

  /// A slice of memory from `Communicator::allocate` that begins at element `offset`. `values`: a dense
  /// tensor of the memory's dtype with the slice's elements, either the slice itself or a tensor in the pool.
  struct Slice {
    std::int64_t offset;
    at::Tensor values;
  };
  /// Combines slices of `memory` (from `allocate`) over all ranks, as `Communicator::all_reduce` would
  /// combine all of `memory`. The result goes into each slice's `values`. Memory between the slices is
  /// undefined afterwards. Over several nodes the slices may travel after the return: the result is there
  /// after `Communicator::join`, and nobody touches the slices until then. `wire`: a 16-bit dtype that the
  /// sums of nodes (float32, float64) and the result are rounded to between nodes, float16 with a power of
  /// two for each 63 values (`ScaledHalf`), so that nothing overflows; without effect on one node, and where
  /// the nodes' ranks cannot share memory. Every rank passes slices with equal offsets and sizes, in
  /// ascending order. On each rank the values of a slice may lie in `memory` or in the pool. Collective.
  virtual void all_reduce_slices(const at::Tensor& memory, std::span<const Slice> slices, ReduceOp op,
                                 std::optional<at::ScalarType> wire) = 0;
  void all_reduce_slices(const at::Tensor& memory, std::span<const Slice> slices, ReduceOp op) {
    all_reduce_slices(memory, slices, op, std::nullopt);
  }

  /// Slices to be combined as `all_reduce_slices` would, to the bit. Each rank gets its share of the result:
  /// rank r gets elements [r * n, (r + 1) * n) of `memory` in `output` [n], which lies apart from `memory`.
  /// `memory` has a share for each rank. `memory`, and elements of `output` between the slices, are undefined
  /// afterwards.
  struct Scatter {
    at::Tensor output, memory;
    std::vector<Slice> slices;
  };
  /// Announces that this rank's slices are written, and combines those of the call before: a rank waits only
  /// if another rank is late by a whole call. After the return, ranks may read the slices of this call and of
  /// the call before, but no older ones. Collective.
  virtual void begin_scatter(Scatter scatter, ReduceOp op) = 0;
  /// Combines the slices of the last call of `begin_scatter`. After the return, all outputs are complete, and
  /// no rank reads any slice. Collective.
  virtual void end_scatters() = 0;

  /// Makes rows that all ranks share. `share_bytes`: for each row, at least one, the bytes of a rank's share,
  /// a multiple of `page_bytes`. Null, on all ranks, if the ranks are on several nodes or the node
  /// cannot do it. The rows may outlive the communicator. Collective: every rank passes equal sizes.
  virtual std::shared_ptr<NodeArena> arena(std::span<const std::size_t> share_bytes) = 0;
  /// Begins an update: returns when no rank uses the rows any more. The shares then have what the ranks have
  /// written to `NodeArena::whole`, and each rank may change its shares. Collective.
  virtual void begin_update(NodeArena& arena) = 0;
  /// Ends an update: returns when every rank has changed its shares; `NodeArena::whole` shows the new shares.
  /// Collective.
  virtual void end_update(NodeArena& arena) = 0;
};

}  // namespace cxtrain
