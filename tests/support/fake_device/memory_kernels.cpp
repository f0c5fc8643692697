#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>

#include "support/fake_device/device_memory.h"
#include "support/fake_device/guard.h"
#include "support/fake_device/launch.h"

/// Operators that make tensors or change what memory they have.
namespace cxtrain::test {

namespace {

constexpr c10::DispatchKeySet kKey(c10::DispatchKey::PrivateUse1);

c10::Device device_or_current(std::optional<c10::Device> device) {
  return device && device->has_index() ? *device : FakeGuard::instance().getDevice();
}

void refuse_pinned(std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "only memory of the host can be pinned");
}

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> format) {
  refuse_pinned(pin_memory);
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_generic(size, &DeviceMemory::instance(), kKey, c10::dtype_or_default(dtype),
                                   format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  refuse_pinned(pin_memory);
  const c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_strided_generic(size, stride, &DeviceMemory::instance(), kKey,
                                           c10::dtype_or_default(dtype));
}

/// Gives the storage room, and what it held, to the first `bytes` of it.
void enlarge(const c10::Storage& storage, std::size_t bytes) {
  auto* const impl = storage.unsafeGetStorageImpl();
  const std::size_t before = impl->nbytes();
  c10::DataPtr memory = DeviceMemory::instance().allocate_on(impl->device().index(), bytes);
  if (const std::size_t kept = std::min(before, bytes); kept > 0) {
    Access from{{ByteSet::interval(impl->data(), kept)}, false, "storage"};
    Access to{{ByteSet::interval(memory.get(), kept)}, true, "storage"};
    const Launch launch("resize storage", impl->device(), {from, to});
    std::memcpy(memory.get(), impl->data(), kept);
  }
  impl->set_data_ptr_noswap(std::move(memory));
  impl->set_nbytes(bytes);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size,
                         std::optional<c10::MemoryFormat> format) {
  auto* const impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  if (format) impl->empty_tensor_restride(*format);
  const auto bytes = static_cast<std::size_t>(self.numel() + self.storage_offset()) * self.element_size();
  if (self.numel() > 0 && bytes > self.storage().nbytes()) enlarge(self.storage(), bytes);
  return self;
}

at::Tensor& set_storage_part(at::Tensor& self, at::Storage source, std::int64_t offset, c10::IntArrayRef size,
                             c10::IntArrayRef stride) {
  auto* const impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  if (stride.empty() && !size.empty())
    impl->set_sizes_contiguous(size);
  else
    impl->set_sizes_and_strides(size, stride);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const std::int64_t numel = static_cast<std::int64_t>(source.nbytes() / self.element_size());
  return set_storage_part(self, std::move(source), 0, numel, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_storage_part(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  return set_storage(self, c10::Storage(c10::Storage::use_byte_size_t(), 0,
                                        DeviceMemory::instance().allocate_on(self.device().index(), 0),
                                        &DeviceMemory::instance(), true));
}

/// So that a module's parameters can go from the CPU to a fake device and back, as they can to a GPU.
bool may_become(const at::Tensor& self, const at::Tensor& from) {
  return self.layout() == c10::kStrided && from.layout() == c10::kStrided;
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  DeviceMemory::instance().recordStream(self.storage().data_ptr(), stream);
}

}  // namespace

void resize_storage(const c10::Storage& storage, std::size_t bytes) { enlarge(storage, bytes); }

}  // namespace cxtrain::test

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", TORCH_FN(cxtrain::test::empty));
  library.impl("empty_strided", TORCH_FN(cxtrain::test::empty_strided));
  library.impl("resize_", TORCH_FN(cxtrain::test::resize));
  library.impl("set_.source_Storage", TORCH_FN(cxtrain::test::set_storage));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(cxtrain::test::set_storage_part));
  library.impl("set_.source_Tensor", TORCH_FN(cxtrain::test::set_tensor));
  library.impl("set_", TORCH_FN(cxtrain::test::set_nothing));
  library.impl("_has_compatible_shallow_copy_type", TORCH_FN(cxtrain::test::may_become));
  library.impl("record_stream", TORCH_FN(cxtrain::test::record_stream));
}
