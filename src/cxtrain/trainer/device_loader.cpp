#include "cxtrain/trainer/device_loader.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/align.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {
namespace {

/// A tensor of this type may begin at any multiple of it.
constexpr std::int64_t kAlignment = 64;

bool travels(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided;
}

std::int64_t room_for(const at::Tensor& tensor) {
  return round_up(static_cast<std::int64_t>(tensor.nbytes()), kAlignment);
}

/// Laid out like `like`, where that is dense, in this memory from byte `offset` on. No view in autograd's
/// sense: a step may do with it what it may do with any tensor.
at::Tensor tensor_in(const at::Tensor& memory, std::int64_t offset, const at::Tensor& like) {
  at::Tensor tensor = at::empty({0}, memory.options().dtype(like.scalar_type()));
  const std::int64_t first = offset / static_cast<std::int64_t>(like.element_size());
  if (like.is_non_overlapping_and_dense())
    return tensor.set_(memory.storage(), first, like.sizes(), like.strides());
  return tensor.set_(memory.storage(), first, like.sizes());
}

}  // namespace

BatchTransfer::BatchTransfer(c10::Device device)
    : device_(device),
      stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
      arrived_(device.type()) {}

/// Who gets the memory next waits for what used it.
BatchTransfer::~BatchTransfer() {
  try {
    arrived_.record(current_stream(device_));
    arrived_.block(stream_);
  } catch (...) {
    // The device has failed, and what lay on it is lost.
  }
}

void BatchTransfer::bring(Batch& batch) {
  const c10::Stream computing = current_stream(device_);
  Slot& slot = free_slot();
  note_free_slots(computing);
  {
    const c10::StreamGuard guard(stream_);
    if (slot.last_use) slot.last_use->block(stream_);
    slot.last_use.reset();
    if (batch.objects.empty())
      batch.tensors = copy(batch.tensors, slot);
    else
      copy_with_objects(batch, slot);
  }
  arrived_.record(stream_);
  arrived_.block(computing);
}

void BatchTransfer::copy_with_objects(Batch& batch, Slot& slot) const {
  std::vector<at::Tensor> all = batch.tensors;
  batch.change_object_tensors([&all](at::Tensor& tensor) { all.push_back(tensor); });
  all = copy(all, slot);
  auto next = all.begin();
  for (at::Tensor& tensor : batch.tensors) tensor = std::move(*next++);
  batch.change_object_tensors([&next](at::Tensor& tensor) { tensor = std::move(*next++); });
}

BatchTransfer::Slot& BatchTransfer::free_slot() {
  const auto found = std::ranges::find_if(slots_, [](const Slot& slot) {
    return slot.last_use || !slot.memory.defined();  // undefined where the device had no room for it
  });
  return found != slots_.end() ? *found : slots_.emplace_back();
}

void BatchTransfer::note_free_slots(const c10::Stream& computing) {
  for (Slot& slot : slots_) {
    if (slot.last_use || !slot.memory.defined() || slot.memory.storage().use_count() > 1) continue;
    slot.last_use.emplace(device_.type()).record(computing);
  }
}

std::vector<at::Tensor> BatchTransfer::copy(const std::vector<at::Tensor>& tensors, Slot& slot) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += travels(tensor) ? room_for(tensor) : 0;
  if (!slot.memory.defined() || slot.memory.numel() < bytes) {
    slot.memory = at::Tensor();  // before the larger one is made
    slot.memory = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device_));
  }
  std::vector<at::Tensor> copies;
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!travels(tensor)) {
      copies.push_back(tensor);
      continue;
    }
    copies.push_back(tensor_in(slot.memory, offset, tensor));
    copies.back().copy_(tensor, /*non_blocking=*/true);
    offset += room_for(tensor);
  }
  return copies;
}

DeviceLoader::DeviceLoader(at::Device device, std::optional<at::ScalarType> dtype, bool channels_last,
                           const Hooks& hooks)
    : device_(device), dtype_(dtype), channels_last_(channels_last), hooks_(hooks) {
  if (!device_.is_cpu()) transfer_.emplace(device_);
}

BatchContext DeviceLoader::context_of(const DataLoader& loader, at::Device device) const {
  const LoaderOptions& options = loader.options();
  return {{options.stage, loader.dataloader_idx(), loader.epoch(), loader.batch_idx(), loader.seed()},
          hooks_.shard,
          device,
          hooks_.module};
}

bool DeviceLoader::next(DataLoader& loader, Batch& batch) {
  const PhaseScope phase(Phase::data);
  batch.tensors.clear();  // the next one may take their memory, which on a CPU is still in the caches
  batch.objects.clear();
  if (!loader.next(batch)) return false;
  if (batch.size > 0) {
    BatchContext context = context_of(loader, at::kCPU);
    hooks_.data.on_before_batch_transfer(batch, context);
  }
  if (transfer_) {
    PhaseClock::enter(Phase::transfer);
    transfer_->bring(batch);
    loader.finish(batch);
  }
  if (batch.size > 0) {
    BatchContext context = context_of(loader, device_);
    hooks_.data.on_after_batch_transfer(batch, context);
  }
  if (!dtype_ && !channels_last_) return true;
  PhaseClock::enter(Phase::transfer);
  const auto convert = [this](at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_floating_point()) return;
    if (dtype_) tensor = tensor.to(*dtype_);
    if (channels_last_) tensor = with_channels_last(tensor);
  };
  for (at::Tensor& tensor : batch.tensors) convert(tensor);
  batch.change_object_tensors(convert);
  return true;
}

}  // namespace cxtrain
