#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/reduce_kernels.h"
#include "cxtrain/cuda/nccl_library.h"

namespace cxtrain {

/// One NCCL communicator over all ranks of a world, or a part of them. Blocking: a call returns when NCCL has
/// enqueued what it says, and connected what it needs, which may take other ranks; the world's watchdog ends
/// the process where they do not come. (Non-blocking communicators start a thread for each call.) An error
/// throws CommunicationError with rank, host, operation, NCCL's own words and what to do; after that only the
/// destructor may be called. Used by one thread at a time,
/// whose current device is the one that the communicator was made on.
class NcclHandle {
 public:
  /// Collective over the world, which outlives it, as does the library.
  explicit NcclHandle(World& world, const NcclLibrary& library = nccl_library());
  /// Closes it; gives it up after an error, and while an exception is under way that came after it, when the
  /// other ranks may not come.
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

  /// Makes one NCCL call on the communicator, which enqueues something (the GPU does it later).
  void call(const char* name, const std::function<ncclResult_t(ncclComm_t)>& operation);

  /// What NCCL has found since in the background: a lost connection, a peer that aborted; empty: nothing new.
  /// Any thread may ask, while no other closes the communicator.
  std::string find_error() const;
  Watchdog& watchdog() const noexcept { return world_.watchdog(); }

  bool is_open() const noexcept { return comm_ != nullptr && !failed_; }

 private:
  /// A part of `whole`, which has been made.
  NcclHandle(const NcclHandle& whole, ncclComm_t comm);
  ncclUniqueId agree_on_id() const;
  /// "rank 1 of 4 on node7: ncclAllReduce: <why>".
  std::string told(const char* name, const std::string& why) const;
  void require(const char* name, ncclResult_t status);
  /// Collective: waits for what is enqueued, then gives everything back.
  void close();

  World& world_;
  const NcclLibrary& library_;
  int rank_, size_;
  int version_ = 0;
  ncclComm_t comm_ = nullptr;  ///< null where it was not made
  std::atomic<bool> failed_ = false;
  int exceptions_ = std::uncaught_exceptions();  ///< under way when it was made
};

}  // namespace cxtrain
