#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cxtrain/comm/reduce_op.h"
#include "cxtrain/memory/mem_pool.h"

namespace cxtrain {

/// What a communicator can do besides, where the ranks of a node map each other's memory. It belongs to the
/// communicator (`Communicator::node_memory`) and ends with it; memory that it gave out lives on. Called by
/// the thread that calls the communicator, and with the same errors.
class NodeMemory {
 public:
  virtual ~NodeMemory() = default;

  /// A pool in which tensors of `sizes` bytes (one for each part of the longest list to come) are reduced
  /// where they lie, as parts. Collective: every rank asks for the same, and a new pool takes the place of
  /// the last one. Null where there is none, perhaps not on all ranks.
  virtual std::shared_ptr<MemPool> mem_pool(std::span<const std::size_t> sizes) = 0;

  /// A piece of memory from `Communicator::allocate`, by its first element there, whose values may lie in a
  /// tensor elsewhere: as many of them, dense, of the same dtype.
  struct Part {
    std::int64_t offset;
    at::Tensor values;
  };
  /// Combines parts of `memory` (of `allocate`) over all ranks, each in the tensor that holds its values. On
  /// the whole as `Communicator::all_reduce`; what lies between the parts is left undefined. Every rank
  /// passes the same parts, in ascending order, but may hold the values of a part in its place in `memory` or
  /// in a tensor in the pool, whatever other ranks do.
  virtual void all_reduce_parts(const at::Tensor& memory, std::span<const Part> parts, ReduceOp op) = 0;
};

}  // namespace cxtrain
