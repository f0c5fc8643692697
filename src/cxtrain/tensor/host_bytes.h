#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace cxtrain {

/// The values in host memory and row-major order: the tensor's own memory where they lie there so.
inline at::Tensor on_host(const at::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

/// Returns whether host memory has the values of a tensor as they are, in row-major order.
inline bool is_on_host(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

/// The bytes of a tensor that lies so, for as long as it lives.
inline std::string_view host_bytes(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace cxtrain
