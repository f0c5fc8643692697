#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/nccl/nccl_library.h"
#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {

/// The first two ranks whose texts are the same, where there are any: with the UUIDs of the ranks' GPUs, two
/// that share one, which NCCL refuses.
std::optional<std::pair<int, int>> ranks_sharing_a_gpu(std::span<const std::string> uuids);

/// One NCCL communicator over all ranks of a world, or a part of them. Non-blocking: every call is polled
/// until NCCL has finished it on the host, never longer than the timeout. Any failure aborts the
/// communicator, on this rank, and throws CommunicationError with rank, host, operation, NCCL's own words and
/// what to do; after that only the destructor may be called. Used by one thread at a time, whose current
/// device is the one the communicator was made on.
class NcclHandle {
 public:
  struct Options {
    std::string gpu_uuid;           ///< of this rank's GPU
    double timeout_seconds = 1800;  ///< of one call
  };

  /// Collective over the world, which outlives it. Table and clock outlive it too.
  NcclHandle(World& world, Options options, const NcclLibrary& api = nccl_library(),
             const Clock& clock = NcclCalls::default_clock());
  /// Closes it; aborts while an exception is under way that came after it, when the other ranks may not come.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Of the library, as NCCL codes it: 22809 is 2.28.9.
  int version() const noexcept { return version_; }

  // NCCL's operations, enqueued on `stream`; on return the GPU has not done them yet. Tensors are dense, lie
  // on the communicator's GPU and fit each other as `Communicator` says. Throw CommunicationError, before
  // anything is enqueued, for a dtype that NCCL cannot reduce.
  void all_reduce(const at::Tensor& tensor, ReduceOp op, cudaStream_t stream);
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, cudaStream_t stream);
  void all_gather(const at::Tensor& output, const at::Tensor& input, cudaStream_t stream);
  void broadcast(const at::Tensor& tensor, int root, cudaStream_t stream);
  /// The first message between two ranks waits until both have come to it.
  void send(const at::Tensor& tensor, int to, cudaStream_t stream);
  void recv(const at::Tensor& tensor, int from, cudaStream_t stream);

  /// The ranks that passed the same color, as a communicator of their own with the same options; null for a
  /// negative color. Collective.
  std::unique_ptr<NcclHandle> split(int color, int key);

  /// Makes one NCCL call on the communicator and waits until it is enqueued (not until the GPU has done it).
  void call(const char* name, const std::function<ncclResult_t(ncclComm_t)>& operation);

  /// Throws if NCCL has found an error since: a lost connection, a peer that aborted. Costs one atomic read.
  void check_async();

  /// Collective: waits for what is enqueued, then gives everything back. Does nothing when closed or aborted.
  void close();
  /// Gives up at once; kernels that wait for other ranks end. Never throws.
  void abort() noexcept;
  bool is_open() const noexcept { return comm_ != nullptr; }

 private:
  /// A part of `whole`, which has begun to be made.
  NcclHandle(const NcclHandle& whole, ncclComm_t comm);
  void check_version();
  void refuse_shared_gpu(World& world) const;
  ncclUniqueId agree_on_id(World& world) const;
  void await(const char* name, ncclResult_t status);
  [[noreturn]] void fail(const char* name, ncclResult_t status);

  Options options_;
  const NcclLibrary& api_;
  NcclCalls calls_;
  std::string hostname_;
  int rank_, size_;
  int version_ = 0;
  ncclComm_t comm_ = nullptr;
};

}  // namespace cxtrain
