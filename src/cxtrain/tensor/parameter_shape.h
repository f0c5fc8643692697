#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "cxtrain/tensor/named_tensor.h"

namespace cxtrain {

/// What those who plan memory for parameters need to know of one.
struct ParameterShape {
  std::int64_t numel;
  at::ScalarType dtype;
  at::Device device;
};

inline ParameterShape shape_of(const at::Tensor& parameter) {
  return {parameter.numel(), parameter.scalar_type(), parameter.device()};
}

inline std::vector<ParameterShape> shapes_of(const std::vector<NamedTensor>& parameters) {
  std::vector<ParameterShape> shapes;
  for (const NamedTensor& parameter : parameters) shapes.push_back(shape_of(parameter.tensor));
  return shapes;
}

}  // namespace cxtrain
