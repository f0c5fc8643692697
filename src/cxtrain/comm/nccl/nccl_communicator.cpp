#ifdef CXTRAIN_WITH_CUDA

#include "cxtrain/comm/nccl/nccl_communicator.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdio>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/nccl/nccl_library.h"

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
    : NcclCommunicator(
          device, c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index()),
          std::make_unique<NcclHandle>(
              on_device(world, device),
              NcclHandle::Options{.gpu_uuid = gpu_uuid(device), .timeout_seconds = timeout_seconds})) {}

NcclCommunicator::NcclCommunicator(c10::Device device, c10::cuda::CUDAStream stream,
                                   std::unique_ptr<NcclHandle> comm)
    : device_(device), stream_(stream), comm_(std::move(comm)) {}

NcclCommunicator::~NcclCommunicator() = default;

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  const c10::cuda::CUDAGuard guard(device_);
  std::unique_ptr<NcclHandle> part = comm_->split(color, key);
  if (part == nullptr) return nullptr;
  return std::unique_ptr<Communicator>(new NcclCommunicator(device_, stream_, std::move(part)));
}

at::Tensor NcclCommunicator::allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) {
  return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device));
}

void NcclCommunicator::require_here(const char* operation, const at::Tensor& tensor) const {
  if (tensor.device() == device_ && tensor.is_non_overlapping_and_dense()) return;
  throw CommunicationError(std::string(operation) + ": needs a dense tensor on " + device_.str() +
                           ", got one on " + tensor.device().str() +
                           "; move it with .to(device).contiguous()");
}

template <class Operation>
void NcclCommunicator::submit(std::initializer_list<const at::Tensor*> tensors, Operation operation) {
  // Autograd's own thread calls this too, and its current device is its own business.
  const c10::cuda::CUDAGuard guard(device_);
  submitted_.record(c10::cuda::getCurrentCUDAStream(device_.index()));
  submitted_.block(stream_);
  operation(stream_.stream());
  // A tensor may be freed before the GPU gets here; its memory must not be used again until then.
  for (const at::Tensor* tensor : tensors) {
    c10::cuda::CUDACachingAllocator::recordStream(tensor->storage().data_ptr(), stream_);
  }
}

void NcclCommunicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  require_here("all_reduce", tensor);
  nccl_type(tensor.scalar_type());
  if (tensor.numel() == 0) return;
  submit({&tensor}, [&](cudaStream_t stream) { comm_->all_reduce(tensor, op, stream); });
}

void NcclCommunicator::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  require_here("reduce_scatter", input);
  check_reduce_scatter(*this, output, input);
  if (output.numel() == 0) return;
  submit({&output, &input}, [&](cudaStream_t stream) { comm_->reduce_scatter(output, input, op, stream); });
}

void NcclCommunicator::all_gather(const at::Tensor& output, const at::Tensor& input) {
  require_here("all_gather", output);
  check_all_gather(*this, output, input);
  if (input.numel() == 0) return;
  submit({&output, &input}, [&](cudaStream_t stream) { comm_->all_gather(output, input, stream); });
}

void NcclCommunicator::broadcast(const at::Tensor& tensor, int root) {
  require_here("broadcast", tensor);
  check_root(*this, root);
  if (tensor.numel() == 0) return;
  submit({&tensor}, [&](cudaStream_t stream) { comm_->broadcast(tensor, root, stream); });
}

void NcclCommunicator::send(const at::Tensor& tensor, int to) {
  require_here("send", tensor);
  check_peer("send", *this, to);
  if (tensor.numel() == 0) return;
  submit({&tensor}, [&](cudaStream_t stream) { comm_->send(tensor, to, stream); });
}

void NcclCommunicator::recv(const at::Tensor& tensor, int from) {
  require_here("recv", tensor);
  check_peer("recv", *this, from);
  if (tensor.numel() == 0) return;
  submit({&tensor}, [&](cudaStream_t stream) { comm_->recv(tensor, from, stream); });
}

void NcclCommunicator::join() {
  const c10::cuda::CUDAGuard guard(device_);
  finished_.record(stream_);
  finished_.block(c10::cuda::getCurrentCUDAStream(device_.index()));
  comm_->check_async();
}

}  // namespace cxtrain

#endif
