#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace cxtrain {

/// A dense tensor's elements [numel] as they lie in memory.
inline at::Tensor flat(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

/// A gradient in the strides of its parameter, as those want it that go through memory as it lies; a copy
/// only where they differ. Autograd lays gradients out like their parameters; somebody who sets one need not.
at::Tensor laid_out_like(const at::Tensor& parameter, const at::Tensor& gradient);

/// The elements of a flat tensor from `offset` on, shaped like `model`, and in the order of its memory where
/// that is dense: copies between the two then go straight through.
at::Tensor slice_like(const at::Tensor& flat, std::int64_t offset, const at::Tensor& model);

/// The same values with the channels (dimension 1) of four dimensions last in memory, as the fastest kernels
/// for convolutions want them; other tensors as they are.
at::Tensor with_channels_last(const at::Tensor& tensor);

/// Calls `work` once for each device and dtype among the tensors, with the tensors that have both, in their
/// order; the first tensor's come first. ATen's multi-tensor operations and single messages need that.
/// Undefined tensors are left out. Where all tensors have the same, as is nearly always so, `work` gets the
/// list as it is.
void for_each_dtype_and_device(at::TensorList tensors, const std::function<void(at::TensorList)>& work);

}  // namespace cxtrain
