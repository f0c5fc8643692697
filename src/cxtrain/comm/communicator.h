#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cxtrain/comm/node_replicas.h"
#include "cxtrain/memory/mem_pool.h"

/// The data plane: collectives on tensors, between the ranks of one world.
///
/// Communication is like a kernel: a collective is ordered after the work already submitted on the caller's
/// current stream, and may run beside what the caller submits next. `join()` makes later work on the current
/// stream wait for every collective submitted so far. In host memory everything is finished on return and
/// `join()` does nothing.
///
/// Every rank calls the same collectives with the same sizes and dtypes in the same order, from one thread at
/// a time. All throw CommunicationError, which names the operation and the cause, after at most the
/// communicator's timeout; the communicator is then unusable.
namespace cxtrain {

enum class ReduceOp { sum, avg, min, max };
const char* to_string(ReduceOp op);

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// For the log: "NCCL 2.28.9", "MPI shared window", ...
  virtual std::string description() const = 0;
  /// Whether collectives run beside the caller's computation, so that submitting them early gains time.
  virtual bool overlaps() const = 0;

  /// Uninitialised memory [numel] that this communicator reduces fastest. Collective: every rank asks for the
  /// same. Lives as long as the tensor, and no longer than the communicator.
  virtual at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) = 0;

  /// Combines `tensor` over all ranks, in place; all ranks get the same bits. Dense tensors of float32,
  /// float64, bfloat16, float16 (16-bit ones accumulate in float32), int32, int64, uint8. `avg` of integers
  /// rounds towards zero.
  virtual void all_reduce(const at::Tensor& tensor, ReduceOp op) = 0;

  /// A piece of memory from `allocate`, by its first element there, whose values may lie in a tensor
  /// elsewhere: as many of them, dense, of the same dtype.
  struct Part {
    std::int64_t offset;
    at::Tensor values;
  };
  /// Combines parts of `memory` (of `allocate`) over all ranks, in the tensors that hold their values, which
  /// may be other ones on other ranks. On the whole as `all_reduce`; what lies between the parts is left
  /// undefined. The parts, in ascending order, are the same on all ranks. A values tensor that is not its
  /// place in `memory` lies in the communicator's `mem_pool`.
  virtual void all_reduce_parts(const at::Tensor& memory, std::span<const Part> parts, ReduceOp op) {
    static_cast<void>(parts);
    all_reduce(memory, op);
  }
  /// A pool in which tensors of `sizes` bytes (one for each part of the longest list to come) are reduced
  /// where they lie, as parts. Collective: every rank asks for the same, once. Null where there is none,
  /// perhaps not on all ranks.
  virtual std::shared_ptr<MemPool> mem_pool(std::span<const std::size_t> sizes) {
    static_cast<void>(sizes);
    return nullptr;
  }

  /// Memory of this many bytes that every rank of the node has a copy of. Collective: every rank asks for the
  /// same. Lives no longer than the communicator. Null, on all ranks of a node alike, where there is none, or
  /// nobody to share it with.
  virtual std::unique_ptr<NodeReplicas> node_replicas(std::size_t bytes) {
    static_cast<void>(bytes);
    return nullptr;
  }

  /// The root's values, on every rank, in place. Any dtype; dense.
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;
  virtual void join() = 0;

  /// Gives up at once, without the other ranks: after an error. Never throws.
  virtual void abort() noexcept {}
};

}  // namespace cxtrain
