#ifdef CXTRAIN_WITH_CUDA

#include "cxtrain/comm/nccl_communicator.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdio>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/nccl_types.h"

namespace cxtrain {
namespace {

/// NCCL takes the GPU that is current when the communicator is made.
World& on_device(World& world, c10::Device device) {
  c10::cuda::set_device(device.index());
  return world;
}

}  // namespace

std::string gpu_uuid(c10::Device device) {
  const cudaUUID_t& uuid = at::cuda::getDeviceProperties(device.index())->uuid;
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    text += hex;
  }
  return text;
}

NcclCommunicator::NcclCommunicator(World& world, c10::Device device, double timeout_seconds)
    : device_(device),
      stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index())),
      comm_(on_device(world, device), {.gpu_uuid = gpu_uuid(device), .timeout_seconds = timeout_seconds}) {}

NcclCommunicator::~NcclCommunicator() = default;

at::Tensor NcclCommunicator::allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) {
  return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device));
}

template <class Operation>
void NcclCommunicator::submit(const char* name, const at::Tensor& tensor, Operation operation) {
  if (tensor.device() != device_ || !tensor.is_non_overlapping_and_dense()) {
    throw CommunicationError(std::string(name) + ": needs a dense tensor on " + device_.str() +
                             ", got one on " + tensor.device().str() +
                             "; move it with .to(device).contiguous()");
  }
  if (tensor.numel() == 0) return;
  // Autograd's own thread calls this too, and its current device is its own business.
  const c10::cuda::CUDAGuard guard(device_);
  submitted_.record(c10::cuda::getCurrentCUDAStream(device_.index()));
  submitted_.block(stream_);
  comm_.call(name,
             [&](ncclComm_t comm) { return operation(tensor.mutable_data_ptr(), comm, stream_.stream()); });
  // The tensor may be freed before the GPU gets here; its memory must not be used again until then.
  c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), stream_);
}

void NcclCommunicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  const ncclDataType_t type = nccl_type(tensor.scalar_type());
  submit("ncclAllReduce", tensor, [&](void* data, ncclComm_t comm, cudaStream_t stream) {
    return comm_.api().all_reduce(data, data, static_cast<std::size_t>(tensor.numel()), type, nccl_op(op),
                                  comm, stream);
  });
}

void NcclCommunicator::broadcast(const at::Tensor& tensor, int root) {
  submit("ncclBroadcast", tensor, [&](void* data, ncclComm_t comm, cudaStream_t stream) {
    return comm_.api().broadcast(data, data, tensor.nbytes(), ncclUint8, root, comm, stream);
  });
}

void NcclCommunicator::join() {
  const c10::cuda::CUDAGuard guard(device_);
  finished_.record(stream_);
  finished_.block(c10::cuda::getCurrentCUDAStream(device_.index()));
  comm_.check_async();
}

}  // namespace cxtrain

#endif
