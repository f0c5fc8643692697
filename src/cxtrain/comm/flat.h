#pragma once

#include <ATen/core/Tensor.h>

namespace cxtrain {

/// A dense tensor's elements [numel] as they lie in memory.
inline at::Tensor flat(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

}  // namespace cxtrain
