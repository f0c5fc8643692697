#pragma once

#include <c10/core/ScalarType.h>

#include <span>
#include <string_view>

namespace cxtrain {

/// A dtype under the names that Python's torch and safetensors have for it.
struct TorchDtype {
  at::ScalarType dtype;
  std::string_view name;         ///< "float32"
  std::string_view storage;      ///< the class of storages with such elements, "FloatStorage"; empty: none
  std::string_view safetensors;  ///< the name in safetensors files, "F32"; empty: none
};

std::span<const TorchDtype> torch_dtypes();
/// Null for a dtype that is not in the list.
const TorchDtype* find_torch_dtype(at::ScalarType dtype);
/// "float32", or LibTorch's own word for one that is not in the list.
std::string_view torch_name(at::ScalarType dtype);

}  // namespace cxtrain
