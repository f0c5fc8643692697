#include "cxtrain/cuda/nccl_communicator.h"

#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <utility>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/error.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/cuda/nccl_library.h"

namespace cxtrain {
namespace {

c10::Stream high_priority_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

/// NCCL takes the device that is current when the communicator is made.
std::unique_ptr<NcclHandle> connect_on(c10::Device device, World& world, const NcclLibrary& library) {
  const c10::DeviceGuard guard(device);
  return std::make_unique<NcclHandle>(world, library);
}

}  // namespace

NcclCommunicator::NcclCommunicator(World& world, c10::Device device, const NcclLibrary& library)
    : NcclCommunicator(high_priority_stream(device), connect_on(device, world, library)) {
  connect_all();
}

NcclCommunicator::NcclCommunicator(c10::Stream stream, std::unique_ptr<NcclHandle> comm)
    : stream_(stream),
      submitted_(stream.device_type()),
      finished_(stream.device_type()),
      comm_(std::move(comm)),
      work_(comm_->watchdog(), [this] { return comm_->find_error(); }) {}

NcclCommunicator::~NcclCommunicator() = default;

void NcclCommunicator::connect_all() {
  // The sizes of the first bucket and of the others (reduce/buckets.h): NCCL takes other ways for small
  // messages than for large ones.
  for (const std::int64_t mib : {1, 25}) {
    const at::Tensor message = allocate(mib * (1 << 20) / 4, at::kFloat, stream_.device());
    all_reduce(message, ReduceOp::avg);
    broadcast(message, 0);
    join();
  }
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  const c10::DeviceGuard guard(stream_.device());
  std::unique_ptr<NcclHandle> part = comm_->split(color, key);
  if (part == nullptr) return nullptr;
  return std::unique_ptr<Communicator>(new NcclCommunicator(stream_, std::move(part)));
}

at::Tensor NcclCommunicator::allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) {
  return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device));
}

void NcclCommunicator::require_here(const char* operation, const at::Tensor& tensor) const {
  const c10::Device device = stream_.device();
  if (tensor.device() == device && tensor.is_non_overlapping_and_dense()) return;
  throw CommunicationError(std::string(operation) + ": needs a dense tensor on " + device.str() +
                               ", got one on " + tensor.device().str() +
                               "; move it with .to(device).contiguous()",
                           MessageCode::bad_tensor);
}

template <class Operation>
void NcclCommunicator::submit(const char* name, std::initializer_list<const at::Tensor*> tensors,
                              Operation operation) {
  // Autograd's own thread calls this too, and its current device is its own business.
  const c10::DeviceGuard guard(stream_.device());
  submitted_.record(current_stream(stream_.device()));
  submitted_.block(stream_);
  for (const at::Tensor* tensor : tensors) used_.push_back(*tensor);
  operation(static_cast<cudaStream_t>(stream_.native_handle()));
  work_.submitted(name, stream_);
}

void NcclCommunicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  require_here("all_reduce", tensor);
  nccl_type(tensor.scalar_type());
  if (tensor.numel() == 0) return;
  submit("an all-reduce on the GPU", {&tensor},
         [&](cudaStream_t stream) { comm_->all_reduce(tensor, op, stream); });
}

void NcclCommunicator::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  require_here("reduce_scatter", input);
  check_reduce_scatter(*this, output, input);
  if (output.numel() == 0) return;
  submit("a reduce-scatter on the GPU", {&output, &input},
         [&](cudaStream_t stream) { comm_->reduce_scatter(output, input, op, stream); });
}

void NcclCommunicator::all_gather(const at::Tensor& output, const at::Tensor& input) {
  require_here("all_gather", output);
  check_all_gather(*this, output, input);
  if (input.numel() == 0) return;
  submit("an all-gather on the GPU", {&output, &input},
         [&](cudaStream_t stream) { comm_->all_gather(output, input, stream); });
}

void NcclCommunicator::broadcast(const at::Tensor& tensor, int root) {
  require_here("broadcast", tensor);
  check_root(*this, root);
  if (tensor.numel() == 0) return;
  submit("a broadcast on the GPU", {&tensor},
         [&](cudaStream_t stream) { comm_->broadcast(tensor, root, stream); });
}

void NcclCommunicator::send(const at::Tensor& tensor, int to) {
  require_here("send", tensor);
  check_peer("send", *this, to);
  if (tensor.numel() == 0) return;
  submit("a send on the GPU", {&tensor}, [&](cudaStream_t stream) { comm_->send(tensor, to, stream); });
}

void NcclCommunicator::recv(const at::Tensor& tensor, int from) {
  require_here("recv", tensor);
  check_peer("recv", *this, from);
  if (tensor.numel() == 0) return;
  submit("a receive on the GPU", {&tensor}, [&](cudaStream_t stream) { comm_->recv(tensor, from, stream); });
}

void NcclCommunicator::join() {
  const c10::DeviceGuard guard(stream_.device());
  finished_.record(stream_);
  finished_.block(current_stream(stream_.device()));
  used_.clear();
}

}  // namespace cxtrain
