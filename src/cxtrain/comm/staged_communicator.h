#pragma once

#include <c10/core/StorageImpl.h>

#include <memory>
#include <vector>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// Page-locks host memory, so that a device copies from it and to it at the bus's full speed.
class PageLocker {
 public:
  virtual ~PageLocker() = default;
  /// Returns false if the system refuses the lock, which costs only speed.
  virtual bool lock(void* memory, std::size_t bytes) = 0;
  virtual void unlock(void* memory) = 0;
};

/// A communicator for device memory that copies through host memory, for ranks that share a GPU, which NCCL
/// rejects. The steps of a call: device to host, the wrapped communicator's operation, host to device. Each
/// call waits for the caller's current stream, and is finished on return. Memory from `allocate` gets a host
/// buffer once. The buffer comes from the wrapped communicator, which reduces it in place, and is
/// page-locked. All other tensors go through one scratch buffer. Works for any device, also for host memory.
class StagedCommunicator final : public Communicator {
 public:
  /// `host`: communicator for host memory. `locker` must outlive this object; null: nothing is page-locked.
  explicit StagedCommunicator(std::unique_ptr<Communicator> host, PageLocker* locker = nullptr);
  ~StagedCommunicator() override;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string description() const override { return "staged through host memory: " + host_->description(); }
  bool overlaps() const override { return false; }

  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override;
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override;
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) override;
  void all_gather(const at::Tensor& output, const at::Tensor& input) override;
  void broadcast(const at::Tensor& tensor, int root) override;
  void send(const at::Tensor& tensor, int to) override;
  void recv(const at::Tensor& tensor, int from) override;
  void join() override {}
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  /// Memory from `allocate`, and its host buffer. The storage identifies it: once the storage is freed, its
  /// address may belong to another tensor, on this rank and not on other ranks.
  struct Stage {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    at::Tensor host;
    bool locked;
  };

  enum class Copies { to_host, from_host, both };
  /// Calls `work` with host memory for the tensor. Copies the tensor to the host memory before the call
  /// (`to_host`), from the host memory after the call (`from_host`), or both. Does nothing for an empty
  /// tensor. Throws if the tensor is not dense.
  template <class Work>
  void through_host(const char* operation, const at::Tensor& tensor, Copies copies, const Work& work);
  /// Returns host memory for this dense tensor, as [numel] in memory order.
  at::Tensor stage_of(const at::Tensor& tensor);
  /// Returns this rank's shard of `whole`, the concatenation over all ranks.
  at::Tensor share_of(const at::Tensor& whole) const;
  void forget_freed();

  std::unique_ptr<Communicator> host_;
  PageLocker* locker_;
  std::vector<Stage> stages_;
  at::Tensor scratch_;  ///< uint8
};

}  // namespace cxtrain
