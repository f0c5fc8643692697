#include "cxtrain/comm/staged_communicator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <functional>

#include "cxtrain/base/error.h"

#ifdef CXTRAIN_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace cxtrain {
namespace {

/// Copies to and from page-locked memory run at the bus's full speed. Refused where the limit on locked
/// memory is reached, which costs speed only.
bool pin(const at::Tensor& host, at::Device device) {
#ifdef CXTRAIN_WITH_CUDA
  if (device.is_cuda()) {
    if (cudaHostRegister(host.data_ptr(), host.nbytes(), cudaHostRegisterDefault) == cudaSuccess) return true;
    cudaGetLastError();  // or the next kernel launch would report it
  }
#else
  static_cast<void>(host), static_cast<void>(device);
#endif
  return false;
}

void unpin(const at::Tensor& host) {
#ifdef CXTRAIN_WITH_CUDA
  cudaHostUnregister(host.data_ptr());
#else
  static_cast<void>(host);
#endif
}

/// A dense tensor's elements as they lie in memory.
at::Tensor flat(const at::Tensor& tensor, const char* operation) {
  if (!tensor.is_non_overlapping_and_dense()) {
    throw CommunicationError(std::string(operation) +
                             ": needs a dense tensor, got one of shape and strides with gaps; "
                             "make it .contiguous()");
  }
  return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

}  // namespace

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> host) : host_(std::move(host)) {}

StagedCommunicator::~StagedCommunicator() {
  for (const Stage& stage : stages_) {
    if (stage.pinned) unpin(stage.host);
  }
}

at::Tensor StagedCommunicator::allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) {
  at::Tensor memory = at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device));
  at::Tensor host = host_->allocate(numel, dtype, at::kCPU);
  if (numel == 0) return memory;
  const bool pinned = pin(host, device);
  stages_.push_back({memory.storage().getWeakStorageImpl(), std::move(host), pinned});
  return memory;
}

at::Tensor StagedCommunicator::stage_of(const at::Tensor& tensor) {
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  for (const Stage& stage : stages_) {
    if (stage.storage.expired() || stage.storage._unsafe_get_target() != storage) continue;
    if (tensor.scalar_type() != stage.host.scalar_type()) continue;
    return stage.host.narrow(0, tensor.storage_offset(), tensor.numel());
  }
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  if (!scratch_.defined() || scratch_.numel() < bytes) {
    scratch_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(tensor.is_cuda()));
  }
  return scratch_.narrow(0, 0, bytes).view(tensor.scalar_type());
}

void StagedCommunicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  if (tensor.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const at::Tensor device = flat(tensor, "all_reduce");
  const at::Tensor host = stage_of(device);
  host.copy_(device);
  host_->all_reduce(host, op);
  // Waited for: another rank may write into a shared window as soon as it comes to its next collective.
  device.copy_(host);
}

void StagedCommunicator::broadcast(const at::Tensor& tensor, int root) {
  if (tensor.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const at::Tensor device = flat(tensor, "broadcast");
  const at::Tensor host = stage_of(device);
  if (rank() == root) host.copy_(device);
  host_->broadcast(host, root);
  if (rank() != root) device.copy_(host);
}

}  // namespace cxtrain
