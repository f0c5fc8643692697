#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

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

}  // namespace cxtrain
