#include "cxtrain/comm/staged_communicator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> host, PageLocker* locker)
    : host_(std::move(host)), locker_(locker) {}

StagedCommunicator::~StagedCommunicator() {
  for (const Stage& stage : stages_) {
    if (stage.locked) locker_->unlock(stage.host.data_ptr());
  }
}

at::Tensor StagedCommunicator::allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) {
  forget_freed();
  at::Tensor memory = at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device));
  at::Tensor host = host_->allocate(numel, dtype, at::kCPU);
  if (numel == 0) return memory;
  const bool locked = locker_ != nullptr && locker_->lock(host.data_ptr(), host.nbytes());
  stages_.push_back({memory.storage().getWeakStorageImpl(), std::move(host), locked});
  return memory;
}

void StagedCommunicator::forget_freed() {
  std::erase_if(stages_, [this](const Stage& stage) {
    const bool freed = stage.storage.expired();
    if (freed && stage.locked) locker_->unlock(stage.host.data_ptr());
    return freed;
  });
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
    scratch_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(locker_ != nullptr));
  }
  return scratch_.narrow(0, 0, bytes).view(tensor.scalar_type());
}

template <class Work>
void StagedCommunicator::through_host(const char* operation, const at::Tensor& tensor, Copies copies,
                                      const Work& work) {
  if (tensor.numel() == 0) return;
  const at::NoGradGuard no_grad;
  check_dense(operation, tensor);
  const at::Tensor device = flat(tensor), host = stage_of(device);
  if (copies != Copies::from_host) host.copy_(device);
  work(host);
  // Waited for: another rank may write into a shared window as soon as it comes to its next collective.
  if (copies != Copies::to_host) device.copy_(host);
}

void StagedCommunicator::all_reduce(const at::Tensor& tensor, ReduceOp op) {
  through_host("all_reduce", tensor, Copies::both,
               [&](const at::Tensor& host) { host_->all_reduce(host, op); });
}

at::Tensor StagedCommunicator::share_of(const at::Tensor& whole) const {
  const std::int64_t numel = whole.numel() / size();
  return whole.narrow(0, rank() * numel, numel);
}

void StagedCommunicator::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  check_reduce_scatter(*this, output, input);
  if (output.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const at::Tensor host = stage_of(input), share = share_of(host);
  host.copy_(flat(input));
  host_->reduce_scatter(share, host, op);
  flat(output).copy_(share);
}

void StagedCommunicator::all_gather(const at::Tensor& output, const at::Tensor& input) {
  check_all_gather(*this, output, input);
  if (input.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const at::Tensor host = stage_of(output), share = share_of(host);
  share.copy_(flat(input));
  host_->all_gather(host, share);
  host_->join();
  flat(output).copy_(host);
}

void StagedCommunicator::send(const at::Tensor& tensor, int to) {
  check_peer("send", *this, to);
  through_host("send", tensor, Copies::to_host, [&](const at::Tensor& host) { host_->send(host, to); });
}

void StagedCommunicator::recv(const at::Tensor& tensor, int from) {
  check_peer("recv", *this, from);
  through_host("recv", tensor, Copies::from_host, [&](const at::Tensor& host) { host_->recv(host, from); });
}

std::unique_ptr<Communicator> StagedCommunicator::split(int color, int key) {
  std::unique_ptr<Communicator> host = host_->split(color, key);
  return host == nullptr ? nullptr : std::make_unique<StagedCommunicator>(std::move(host), locker_);
}

void StagedCommunicator::broadcast(const at::Tensor& tensor, int root) {
  check_root(*this, root);
  through_host("broadcast", tensor, rank() == root ? Copies::to_host : Copies::from_host,
               [&](const at::Tensor& host) { host_->broadcast(host, root); });
}

}  // namespace cxtrain
