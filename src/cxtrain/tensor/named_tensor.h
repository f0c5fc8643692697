#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace cxtrain {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

}  // namespace cxtrain
