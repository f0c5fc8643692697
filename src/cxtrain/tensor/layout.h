#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace cxtrain {

/// Returns whether both tensors are defined, of one dtype and on one device.
bool same_dtype_and_device(const at::Tensor& a, const at::Tensor& b);

/// Returns a dense tensor's elements [numel] in memory order.
inline at::Tensor flat(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

/// Returns a gradient in the strides of its parameter, for code that goes through memory linearly; copies
/// only if the strides differ. Autograd lays gradients out like their parameters; code that sets a gradient
/// need not.
at::Tensor laid_out_like(const at::Tensor& parameter, const at::Tensor& gradient);

/// Returns the elements of a flat tensor from `offset` on, in the shape of `model`, and in its memory order
/// if `model` is dense. Copies between the two are then linear.
at::Tensor slice_like(const at::Tensor& flat, std::int64_t offset, const at::Tensor& model);

/// Returns a tensor of four dimensions with the channels (dimension 1) last in memory, as the fastest kernels
/// for convolutions need them; returns other tensors as they are.
at::Tensor with_channels_last(const at::Tensor& tensor);

/// Calls `work` once for each pair of device and dtype among the tensors, with the tensors of this pair, in
/// their order. The pair of the first tensor comes first. ATen's multi-tensor operations and single messages
/// need such lists. Undefined tensors are left out. If all tensors have one pair, as is nearly always so,
/// `work` gets the list as it is.
void for_each_dtype_and_device(at::TensorList tensors, const std::function<void(at::TensorList)>& work);

}  // namespace cxtrain
