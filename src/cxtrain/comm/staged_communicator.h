#pragma once

#include <c10/core/StorageImpl.h>

#include <memory>
#include <vector>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// Fixes host memory where it lies, so that a device copies from it and to it at the bus's full speed.
class PageLocker {
 public:
  virtual ~PageLocker() = default;
  /// False where the system refuses, which costs speed only.
  virtual bool lock(void* memory, std::size_t bytes) = 0;
  virtual void unlock(void* memory) = 0;
};

/// Device memory by way of host memory, for ranks that share a GPU, which NCCL refuses: device -> host, the
/// wrapped communicator's operation, host -> device. Each call waits for the caller's current stream, and is
/// finished on return. Host memory for what `allocate` gave out is taken once, from the wrapped communicator
/// (so that it is reduced where it lies), and page-locked; anything else goes
/// through one scratch buffer. Works for any device, host memory itself included.
class StagedCommunicator final : public Communicator {
 public:
  /// `host`: for host memory. `locker` outlives it; null: nothing is page-locked.
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
  /// What `allocate` gave out, and its place in host memory. Known by its storage: once it is freed, its
  /// address may be another tensor's, on this rank and not on others.
  struct Stage {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    at::Tensor host;
    bool locked;
  };

  /// Host memory for this dense tensor, as [numel] in the order of its memory.
  at::Tensor stage_of(const at::Tensor& tensor);
  /// This rank's share of what all ranks have.
  at::Tensor share_of(const at::Tensor& whole) const;
  void forget_freed();

  std::unique_ptr<Communicator> host_;
  PageLocker* locker_;
  std::vector<Stage> stages_;
  at::Tensor scratch_;  ///< uint8
};

}  // namespace cxtrain
