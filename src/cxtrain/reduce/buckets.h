#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cxtrain {

/// Facts about a parameter for planning its memory.
struct ParameterShape {
  std::int64_t numel;
  at::ScalarType dtype;
  at::Device device;
};

inline ParameterShape shape_of(const at::Tensor& parameter) {
  return {parameter.numel(), parameter.scalar_type(), parameter.device()};
}

/// A planned bucket: parameters of one dtype and device, in the expected order of their gradients.
struct BucketPlan {
  std::vector<std::size_t> parameters;  ///< indices of parameters
  std::vector<std::int64_t> offsets;    ///< elements; each gradient starts on a 64-byte boundary
  std::int64_t numel = 0;
};

/// Cuts `order` (parameter indices, as their gradients become ready) into buckets of one dtype and device. A
/// bucket closes with the gradient that reaches its limit: the first bucket at `first_bytes`, so that
/// communication starts early, later buckets at `bytes` (torch's DistributedDataParallel: 1 MiB and 25 MiB).
/// A limit of 0 or less means no limit. Buckets are in the order of their last gradient; buckets below the
/// limit come last. Pure.
std::vector<BucketPlan> plan_buckets(std::span<const ParameterShape> parameters,
                                     std::span<const std::size_t> order, std::int64_t first_bytes,
                                     std::int64_t bytes);

}  // namespace cxtrain
