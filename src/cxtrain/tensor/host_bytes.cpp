#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {

at::Tensor on_host(const at::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

std::string_view host_bytes(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace cxtrain
