#include "cxtrain/trainer/device_loader.h"

#include "cxtrain/base/phase_clock.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {

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

void DeviceLoader::release_memory() {
  if (transfer_) transfer_.emplace(device_);
}

}  // namespace cxtrain
