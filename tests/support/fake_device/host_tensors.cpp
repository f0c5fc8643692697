#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>

#include "support/fake_device/device_memory.h"
#include "support/fake_device/host_kernel.h"

namespace cxtrain::test {

namespace {

at::Tensor shaped_like(const at::Tensor& shape, at::Tensor tensor) {
  auto* const impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_offset(shape.storage_offset());
  impl->set_sizes_and_strides(shape.sizes(), shape.strides());
  if (shape.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (shape.is_conj()) tensor._set_conj(true);
  if (shape.is_neg()) tensor._set_neg(true);
  return tensor;
}

at::Tensor tensor_like(const at::Tensor& shape, c10::Storage storage, c10::DispatchKey key) {
  return shaped_like(shape, at::detail::make_tensor<c10::TensorImpl>(
                                std::move(storage), c10::DispatchKeySet(key), shape.dtype()));
}

/// Keeps what autograd knows by the keys: in inference mode a view of an ordinary tensor is one as well.
at::Tensor view_like(const at::Tensor& shape, const at::Tensor& of) {
  return shaped_like(
      shape, at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(of.storage()),
                                                      of.key_set(), shape.dtype()));
}

c10::Storage device_storage(c10::StorageImpl& host, c10::Device device) {
  const std::size_t bytes = host.nbytes();
  c10::DataPtr memory =
      DeviceMemory::instance().adopt(device.index(), bytes, host.set_data_ptr(c10::DataPtr()));
  return {c10::Storage::use_byte_size_t(), bytes, std::move(memory), &DeviceMemory::instance(),
          /*resizable=*/true};
}

}  // namespace

at::Tensor HostTensors::to_host(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != c10::DeviceType::PrivateUse1) return tensor;
  c10::StorageImpl* const device = tensor.storage().unsafeGetStorageImpl();
  auto found = host_storage_.find(device);
  if (found == host_storage_.end()) {
    c10::Storage host(c10::Storage::use_byte_size_t(), device->nbytes(),
                      c10::DataPtr(device->mutable_data(), c10::Device(c10::DeviceType::CPU)),
                      c10::GetCPUAllocator(), /*resizable=*/true);
    device_storage_.emplace(host.unsafeGetStorageImpl(), tensor.storage());
    found = host_storage_.emplace(device, std::move(host)).first;
  }
  tensors_.push_back({tensor, tensor_like(tensor, found->second, c10::DispatchKey::CPU)});
  return tensors_.back().host;
}

at::Tensor HostTensors::to_device(const at::Tensor& result, c10::Device device,
                                  std::vector<at::Tensor>& made) {
  if (!result.defined() || !result.device().is_cpu()) return result;
  for (const Pair& pair : tensors_) {
    if (pair.host.is_same(result)) return pair.device;
  }
  c10::StorageImpl* const host = result.storage().unsafeGetStorageImpl();
  auto found = device_storage_.find(host);
  const bool fresh = found == device_storage_.end();
  if (fresh) found = device_storage_.emplace(host, device_storage(*host, device)).first;
  for (const Pair& pair : tensors_) {
    if (!fresh && pair.device.storage().is_alias_of(found->second)) return view_like(result, pair.device);
  }
  at::Tensor tensor = tensor_like(result, found->second, c10::DispatchKey::PrivateUse1);
  if (fresh) made.push_back(tensor);
  return tensor;
}

void HostTensors::adopt_resized(const at::Tensor& tensor, std::vector<at::Tensor>& made) {
  for (const Pair& pair : tensors_) {
    if (!pair.device.is_same(tensor)) continue;
    auto* const impl = tensor.unsafeGetTensorImpl();
    c10::StorageImpl* const device = tensor.storage().unsafeGetStorageImpl();
    c10::StorageImpl* const host = pair.host.storage().unsafeGetStorageImpl();
    const bool moved = host->data() != device->data();
    if (moved) {
      const std::size_t bytes = host->nbytes();
      device->set_data_ptr_noswap(
          DeviceMemory::instance().adopt(tensor.device().index(), bytes, host->set_data_ptr(c10::DataPtr())));
      device->set_nbytes(bytes);
      host->set_data_ptr_noswap(c10::DataPtr(device->mutable_data(), c10::Device(c10::DeviceType::CPU)));
    }
    if (pair.host.sizes() != tensor.sizes() || pair.host.strides() != tensor.strides() ||
        pair.host.storage_offset() != tensor.storage_offset()) {
      impl->set_storage_offset(pair.host.storage_offset());
      impl->set_sizes_and_strides(pair.host.sizes(), pair.host.strides());
    }
    if (moved) made.push_back(tensor);
    return;
  }
}

}  // namespace cxtrain::test
