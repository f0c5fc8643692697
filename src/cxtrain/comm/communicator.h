#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/comm/connection_use.h"
#include "cxtrain/comm/reduce_kernels.h"

/// The data plane: tensors that travel between the ranks of one world, or of a part of it.
///
/// Communication behaves like a kernel: an operation runs after the work already submitted to the caller's
/// current stream. Up to a `join()` it may run beside work that the caller submits later. In host memory
/// everything but `all_gather` and `NodeMemory::all_reduce_slices` is finished on return.
///
/// All operations except `send` and `recv` are collective: every rank makes the same calls, in the same
/// order, with equal sizes and dtypes. One thread at a time calls a communicator. Ranks that share several
/// communicators use them in the same order.
///
/// Tensors are dense (no gaps, no overlaps); their elements count in memory order. A tensor in memory from
/// `allocate` lies at the same offset of this memory on all ranks.
///
/// Errors are CommunicationErrors that name the operation. Arguments that do not fit (sizes, gaps, a rank
/// that does not exist) are rejected before anything is sent. Any other error (a lost rank, a wait longer
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
  /// Returns whether collectives run beside the caller's computation, so that early submission saves time.
  virtual bool overlaps() const = 0;
  /// Returns a size for messages, in bytes: large enough that the number of messages costs little, small
  /// enough that the last message ends soon. The default, 25 MiB, suits GPUs and shared memory (torch's
  /// DistributedDataParallel has it).
  virtual std::int64_t message_bytes() const { return std::int64_t{25} << 20; }

  /// Returns the time, in seconds, that the links between nodes need for a sum of so many bytes, by their
  /// speed at the start; absent if no speed was measured.
  virtual std::optional<double> seconds_between_nodes(std::int64_t /*bytes*/) const { return std::nullopt; }
  /// Returns the use of this rank's own TCP connections to other nodes; empty if the rank has none.
  virtual std::vector<ConnectionUse> connections() const { return {}; }

  /// Returns uninitialised memory [numel] that this communicator reduces fastest. Collective: every rank
  /// passes equal arguments. The memory lives as long as any tensor in it, also after the communicator.
  virtual at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) = 0;

  /// Combines `tensor` over all ranks, in place; the result has the same bits on all ranks. Dtypes: float32,
  /// float64, bfloat16, float16, int32, int64, uint8. 16-bit floats accumulate in float32. `avg` of integers
  /// rounds towards zero.
  virtual void all_reduce(const at::Tensor& tensor, ReduceOp op) = 0;

  /// Combines `input` [size * n] over all ranks and gives each rank its shard: rank r gets elements [r * n,
  /// (r + 1) * n) of the result in `output` [n]. `output` is this rank's shard of `input` (in place), or lies
  /// apart from `input`. The rest of `input` does not change. Dtypes as for `all_reduce`. On host memory, an
  /// element gets the bits that `all_reduce` of `input` would give it.
  virtual void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) = 0;

  /// Puts all ranks' `input` [n] side by side on every rank: the input of rank r goes to [r * n, (r + 1) * n)
  /// of `output` [size * n]. `input` is this rank's shard of `output` (in place), or lies apart from
  /// `output`. Any dtype.
  virtual void all_gather(const at::Tensor& output, const at::Tensor& input) = 0;

  /// Copies the root's values to every rank, in place. Any dtype.
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;

  /// Sends a message to one other rank, which calls `recv` with a tensor of equal size and dtype. Messages
  /// between two ranks arrive in the order of sending. Either call may wait until the other rank has made its
  /// call: two ranks that both send first may wait for ever. Any dtype.
  virtual void send(const at::Tensor& tensor, int to) = 0;
  virtual void recv(const at::Tensor& tensor, int from) = 0;

  /// Makes later work on the current stream wait for everything submitted so far. Local.
  virtual void join() = 0;

  /// Makes a communicator over the ranks that pass an equal color. Its ranks are numbered by key, and for
  /// equal keys by their rank here. Collective over all ranks. Null for a negative color. The result is
  /// independent of this communicator: either may end first.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// The operations that only ranks of one node can do; null if there are none. Null on all ranks or on no
  /// rank.
  virtual NodeMemory* node_memory() { return nullptr; }
};

// Checks of every communicator before it sends anything. They throw CommunicationError, which names the
// operation, the arguments and the fix.

/// Checks that the tensor has neither gaps nor overlaps.
void check_dense(const char* operation, const at::Tensor& tensor);
/// Checks that rank `root` exists.
void check_root(const Communicator& communicator, int root);
/// Checks that rank `peer` exists and is not this rank.
void check_peer(const char* operation, const Communicator& communicator, int peer);
/// Checks that `output` and `input` fit each other, that they do not overlap except in place, and that the
/// dtype can be reduced.
void check_reduce_scatter(const Communicator& communicator, const at::Tensor& output,
                          const at::Tensor& input);
void check_all_gather(const Communicator& communicator, const at::Tensor& output, const at::Tensor& input);

}  // namespace cxtrain
