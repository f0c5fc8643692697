#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "support/fake_device/host_kernel.h"
#include "support/fake_device/late_copies.h"
#include "support/fake_device/launch.h"
#include "support/fake_device/pinned_memory.h"

/// Copies within a device, between devices, and between device and host.
namespace cxtrain::test {

namespace {

bool on_device(const at::Tensor& tensor) { return tensor.device().type() == c10::DeviceType::PrivateUse1; }

/// By the CPU, on the memory of both.
void copy_values(const at::Tensor& to, const at::Tensor& from) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  HostTensors tensors;
  at::Tensor host_to = tensors.to_host(to);
  host_to.copy_(tensors.to_host(from));
}

/// Whether a copy is one of bytes, which the device makes on its own if the host's are pinned.
bool is_of_bytes(const at::Tensor& to, const at::Tensor& from) {
  return to.dtype() == from.dtype() && to.sizes() == from.sizes() && to.strides() == from.strides() &&
         to.is_non_overlapping_and_dense() && to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
}

/// As CUDA does: on the source's stream, which first waits for the target's, and then is waited for by it.
void copy_between_devices(const at::Tensor& to, const at::Tensor& from) {
  FakeLock lock(fake_mutex());
  FakeStream& source = current_stream(from.device());
  FakeStream& target = current_stream(to.device());
  source.clock.join(target.clock);
  const Launch launch("copy between devices", source, {reads(from), writes(to)});
  copy_values(to, from);
  target.clock.join(source.clock);
}

void copy_to_device(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  FakeLock lock(fake_mutex());
  const auto pinned = PinnedMemory::instance().block_of(from.const_data_ptr());
  const Launch launch("copy host to device", to.device(), {reads(from), writes(to)});
  if (pinned && is_of_bytes(to, from)) {
    LateCopies::instance().to_device(launch.operation(), launch.stream().clock, to.mutable_data_ptr(),
                                     from.const_data_ptr(), to.nbytes(), pinned);
  } else {
    copy_values(to, from);
  }
  lock.unlock();
  if (!non_blocking) launch.wait("copy host to device");
}

void copy_to_host(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  FakeLock lock(fake_mutex());
  const auto pinned = PinnedMemory::instance().block_of(to.const_data_ptr());
  const Launch launch("copy device to host", from.device(), {reads(from), writes(to)});
  const bool late = pinned && is_of_bytes(to, from);
  at::Tensor values;
  if (late) {
    LateCopies::instance().to_host(launch.operation(), launch.stream().clock, to.mutable_data_ptr(),
                                   from.const_data_ptr(), to.nbytes(), pinned);
  } else {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    values = HostTensors().to_host(from).clone();
  }
  lock.unlock();
  if (late && non_blocking) return;
  launch.wait("copy device to host");
  if (!late) copy_values(to, values);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& target, bool non_blocking) {
  if (target.numel() == 0) return target;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor from = self.expand(target.sizes());
  if (!on_device(self)) {
    copy_to_device(target, from, non_blocking);
  } else if (!on_device(target)) {
    copy_to_host(target, from, non_blocking);
  } else if (self.device() != target.device()) {
    copy_between_devices(target, from);
  } else {
    const Launch launch("aten::copy_", target.device(), {reads(from), writes(target)});
    copy_values(target, from);
  }
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& target) {
  target.resize_(self.sizes());
  return copy_from(self, target, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  const Launch launch("aten::_local_scalar_dense", self.device(), {reads(self)});
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const at::Tensor value = HostTensors().to_host(self).clone();
  launch.wait("aten::_local_scalar_dense");
  return value.item();
}

}  // namespace

}  // namespace cxtrain::test

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_copy_from", TORCH_FN(cxtrain::test::copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(cxtrain::test::copy_from_and_resize));
  library.impl("_local_scalar_dense", TORCH_FN(cxtrain::test::local_scalar_dense));
}
