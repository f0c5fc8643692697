#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cxtrain/comm/reduce_kernels.h"

/// The data plane: tensors that travel between the ranks of one world, or of a part of it.
///
/// Communication is like a kernel: an operation is ordered after the work already submitted on the caller's
/// current stream, and may run beside what the caller submits next, up to a `join()`. In host memory
/// everything is finished on return and `join()` does nothing.
///
/// All but `send` and `recv` is collective: every rank calls the same, with the same sizes and dtypes, in the
/// same order. One thread at a time calls a communicator. Ranks that have several communicators in common use
/// them in the same order.
///
/// Tensors are dense (no gaps, no overlaps); their elements count in the order in which they lie in memory.
/// A tensor that lies in memory of `allocate` lies at the same offset in it on all ranks.
///
/// Errors are CommunicationErrors that name the operation. A rank whose arguments do not fit (sizes, gaps, a
/// rank that there is not) is refused before anything is sent. Any other error (a lost rank, a wait longer
/// than the communicator's timeout) leaves the communicator unusable.
namespace cxtrain {

class NodeMemory;

class Communicator {
 public:
  /// Collective, except while an exception is under way.
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// For the log: "NCCL 2.28.9", "MPI, summed in memory that the node's ranks share", ...
  virtual std::string description() const = 0;
  /// Whether collectives run beside the caller's computation, so that submitting them early gains time.
  virtual bool overlaps() const = 0;

  /// Uninitialised memory [numel] that this communicator reduces fastest. Collective: every rank asks for the
  /// same. It lives as long as any tensor that lies in it, also after the communicator.
  virtual at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) = 0;

  /// Combines `tensor` over all ranks, in place; all ranks get the same bits. Tensors of float32, float64,
  /// bfloat16, float16 (16-bit ones accumulate in float32), int32, int64, uint8. `avg` of integers rounds
  /// towards zero.
  virtual void all_reduce(const at::Tensor& tensor, ReduceOp op) = 0;

  /// Combines `input` [size * n] over all ranks and gives each its share: rank r elements [r * n, (r + 1) *
  /// n) of the result, in `output` [n]. `output` may be this rank's share of `input` (in place), or else lies
  /// apart from it; the rest of `input` stays as it is. Dtypes as for `all_reduce`. On host memory an element
  /// gets the bits that `all_reduce` of `input` would give it.
  virtual void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) = 0;

  /// Puts all ranks' `input` [n] side by side on every rank: that of rank r at [r * n, (r + 1) * n) of
  /// `output` [size * n]. `input` may be this rank's share of `output` (in place), or else lies apart from
  /// it. Any dtype.
  virtual void all_gather(const at::Tensor& output, const at::Tensor& input) = 0;

  /// The root's values, on every rank, in place. Any dtype.
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;

  /// A message to one other rank, which calls `recv` with a tensor of the same size and dtype. Messages
  /// between two ranks arrive in the order in which they were sent. Either call may wait until the other rank
  /// has made its own: two ranks that both send first may wait for ever. Any dtype.
  virtual void send(const at::Tensor& tensor, int to) = 0;
  virtual void recv(const at::Tensor& tensor, int from) = 0;

  /// Makes later work on the current stream wait for everything submitted so far. Local.
  virtual void join() = 0;

  /// A communicator over the ranks that passed the same color, numbered by key and, where keys are equal, by
  /// their rank here. Collective over all ranks. Null for a negative color. It is independent of this one:
  /// either may end first.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// What only ranks of a node can do; null where there is nothing of the kind. On all ranks alike.
  virtual NodeMemory* node_memory() { return nullptr; }
};

// What every communicator checks before it sends anything. They throw CommunicationError, naming the
// operation, what was given and what to do.

/// That the tensor has neither gaps nor overlaps.
void check_dense(const char* operation, const at::Tensor& tensor);
/// That there is a rank `root`.
void check_root(const Communicator& communicator, int root);
/// That there is a rank `peer`, and it is another one.
void check_peer(const char* operation, const Communicator& communicator, int peer);
/// That `output` and `input` fit each other and do not overlap, but for sharing in place, and that the dtype
/// can be reduced.
void check_reduce_scatter(const Communicator& communicator, const at::Tensor& output,
                          const at::Tensor& input);
void check_all_gather(const Communicator& communicator, const at::Tensor& output, const at::Tensor& input);

}  // namespace cxtrain
