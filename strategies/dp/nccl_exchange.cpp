#ifdef CXTRAIN_WITH_CUDA

#include "nccl_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "cxtrain/comm/nccl/nccl_library.h"

namespace cxtrain {
namespace {

NcclPeers::Options options_for(const std::vector<Replica>& replicas, double timeout_seconds) {
  return {.size = replicas.size(),
          .select_device = [&](std::size_t r) { c10::cuda::set_device(replicas[r].device.index()); },
          .timeout_seconds = timeout_seconds};
}

cudaStream_t stream_of(const Replica& replica) {
  return c10::cuda::getCurrentCUDAStream(replica.device.index()).stream();
}

}  // namespace

NcclExchange::NcclExchange(std::vector<Replica>& replicas, double timeout_seconds)
    : replicas_(replicas), group_(options_for(replicas, timeout_seconds)) {
  c10::cuda::set_device(replicas_[0].device.index());
}

std::string NcclExchange::description() const {
  return std::to_string(replicas_.size()) + " replicas in one process, NCCL " +
         nccl_version_text(group_.version()) + " between their GPUs";
}

void NcclExchange::broadcast(const std::vector<std::vector<at::Tensor>>& tensors) {
  if (tensors[0].empty()) return;
  const c10::cuda::CUDAGuard guard(replicas_[0].device);
  group_.call("ncclBroadcast", [&](std::size_t r, ncclComm_t comm) {
    for (const at::Tensor& tensor : tensors[r]) {
      void* data = tensor.mutable_data_ptr();
      const ncclResult_t status =
          group_.api().broadcast(data, data, tensor.nbytes(), ncclUint8, 0, comm, stream_of(replicas_[r]));
      if (status != ncclSuccess && status != ncclInProgress) return status;
    }
    return ncclSuccess;
  });
}

void NcclExchange::send_parameters() {
  std::vector<std::vector<at::Tensor>> tensors(replicas_.size());
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    for (const NamedTensor& parameter : replicas_[r].parameters) {
      if (!sent_frozen_ || parameter.tensor.requires_grad()) tensors[r].push_back(parameter.tensor);
    }
  }
  broadcast(tensors);
  sent_frozen_ = true;
}

void NcclExchange::send_buffers(std::size_t) {
  std::vector<std::vector<at::Tensor>> tensors(replicas_.size());
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    for (const NamedTensor& buffer : replicas_[r].buffers) tensors[r].push_back(buffer.tensor);
  }
  broadcast(tensors);
}

void NcclExchange::sum_gradients() {
  const at::NoGradGuard no_grad;
  const c10::cuda::CUDAGuard guard(replicas_[0].device);
  std::vector<std::vector<at::Tensor>> gradients(replicas_.size());
  for (std::size_t i = 0; i < replicas_[0].parameters.size(); ++i) {
    const auto has_gradient = [i](const Replica& r) { return r.parameters[i].tensor.grad().defined(); };
    if (std::none_of(replicas_.begin(), replicas_.end(), has_gradient)) continue;
    for (std::size_t r = 0; r < replicas_.size(); ++r) {
      at::Tensor& parameter = replicas_[r].parameters[i].tensor;
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
      gradients[r].push_back(parameter.grad().contiguous());
    }
    replicas_[0].parameters[i].tensor.mutable_grad() = gradients[0].back();
  }
  if (gradients[0].empty()) return;
  group_.call("ncclReduce", [&](std::size_t r, ncclComm_t comm) {
    for (const at::Tensor& gradient : gradients[r]) {
      void* data = gradient.mutable_data_ptr();
      const ncclResult_t status = group_.api().reduce(data, data, static_cast<std::size_t>(gradient.numel()),
                                                      nccl_type(gradient.scalar_type()), ncclSum,
                                                      /*root=*/0, comm, stream_of(replicas_[r]));
      if (status != ncclSuccess && status != ncclInProgress) return status;
    }
    return ncclSuccess;
  });
  for (std::size_t r = 1; r < replicas_.size(); ++r) {
    for (NamedTensor& parameter : replicas_[r].parameters) parameter.tensor.mutable_grad().reset();
  }
}

}  // namespace cxtrain

#endif
