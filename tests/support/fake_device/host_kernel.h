#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <optional>
#include <vector>

#include "support/fake_device/order_checker.h"

namespace cxtrain::test {

/// Tensors of a fake device as the CPU's kernels see them, for one call: on the same memory, with the same
/// sizes and strides, but on the CPU; and back.
class HostTensors {
 public:
  /// A tensor of the CPU stays as it is.
  at::Tensor to_host(const at::Tensor& tensor);
  /// The argument that was given, a view of it, or a tensor of its own on the memory that the CPU's kernel
  /// has allocated, which belongs to the device from then on. Adds what is new to `made`.
  at::Tensor to_device(const at::Tensor& result, c10::Device device, std::vector<at::Tensor>& made);
  /// Gives the device's tensor what a kernel has changed of the host's beside its values: memory, sizes.
  void adopt_resized(const at::Tensor& tensor, std::vector<at::Tensor>& made);

 private:
  struct Pair {
    at::Tensor device, host;
  };
  std::vector<Pair> tensors_;
  std::map<c10::StorageImpl*, c10::Storage> host_storage_;    ///< by the device's
  std::map<c10::StorageImpl*, c10::Storage> device_storage_;  ///< by the host's
};

/// Runs an operator on tensors of a fake device by `kernel`, an operator that takes the same arguments, with
/// the CPU's code. Throws where the tensors lie on several devices.
void run_on_host(const c10::OperatorHandle& op, const c10::OperatorHandle& kernel, torch::jit::Stack* stack);
/// By its own kernel: what LibTorch calls where the fake device has none.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace cxtrain::test
