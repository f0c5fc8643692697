#pragma once

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <initializer_list>
#include <memory>
#include <string>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/nccl/nccl_handle.h"

namespace cxtrain {

/// Collectives between GPUs, one per rank, over NCCL.
///
/// They run on one high-priority stream of their own, which waits for the caller's current stream at each of
/// them, so that they run beside what the caller submits next. A part (`split`) shares the stream: kernels of
/// two communicators that start in another order on each rank could wait for each other for ever. No method
/// waits for the GPU. Errors that NCCL finds in the background (a lost peer) surface at the next call or
/// `join`. NCCL adds 16-bit floats pairwise in their own type along its ring or tree, other than host memory,
/// where they accumulate in float32; `avg` divides before it adds.
class NcclCommunicator final : public Communicator {
 public:
  /// Collective over the world, which outlives it. `device`: this rank's GPU. Throws CommunicationError.
  NcclCommunicator(World& world, c10::Device device, double timeout_seconds);
  ~NcclCommunicator() override;

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }
  std::string description() const override { return "NCCL " + nccl_version_text(comm_->version()); }
  bool overlaps() const override { return true; }

  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override;
  void all_reduce(const at::Tensor& tensor, ReduceOp op) override;
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) override;
  void all_gather(const at::Tensor& output, const at::Tensor& input) override;
  void broadcast(const at::Tensor& tensor, int root) override;
  void send(const at::Tensor& tensor, int to) override;
  void recv(const at::Tensor& tensor, int from) override;
  void join() override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  /// A part of another one.
  NcclCommunicator(c10::Device device, c10::cuda::CUDAStream stream, std::unique_ptr<NcclHandle> comm);
  void require_here(const char* operation, const at::Tensor& tensor) const;
  /// Enqueues `operation(stream)`, which uses the tensors, after the current stream's work.
  template <class Operation>
  void submit(std::initializer_list<const at::Tensor*> tensors, Operation operation);

  c10::Device device_;
  c10::cuda::CUDAStream stream_;
  at::cuda::CUDAEvent submitted_, finished_;
  std::unique_ptr<NcclHandle> comm_;
};

/// "GPU-...", as nvidia-smi writes it. Starts CUDA on the device.
std::string gpu_uuid(c10::Device device);

}  // namespace cxtrain
