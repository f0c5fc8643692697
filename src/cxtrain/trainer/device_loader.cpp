#include "cxtrain/trainer/device_loader.h"

#include "cxtrain/tensor/layout.h"

namespace cxtrain {

DeviceLoader::DeviceLoader(at::Device device, std::optional<at::ScalarType> dtype, bool channels_last)
    : device_(device), dtype_(dtype), channels_last_(channels_last) {
  if (!device_.is_cpu()) transfer_.emplace(device_);
}

bool DeviceLoader::next(DataLoader& loader, Batch& batch) {
  batch.tensors.clear();  // the next one may take their memory, which on a CPU is still in the caches
  if (!loader.next(batch)) return false;
  if (transfer_) {
    transfer_->bring(batch);
    loader.finish(batch);
  }
  if (!dtype_ && !channels_last_) return true;
  for (at::Tensor& tensor : batch.tensors) {
    if (!tensor.defined() || !tensor.is_floating_point()) continue;
    if (dtype_) tensor = tensor.to(*dtype_);
    if (channels_last_) tensor = with_channels_last(tensor);
  }
  return true;
}

void DeviceLoader::release_memory() {
  if (transfer_) transfer_.emplace(device_);
}

}  // namespace cxtrain
