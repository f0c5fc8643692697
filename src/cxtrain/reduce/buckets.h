#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// A bucket to be: some parameters of one dtype and device, in the order in which their gradients are
/// expected.
struct BucketPlan {
  std::vector<std::size_t> parameters;  ///< indices
  std::vector<std::int64_t> offsets;    ///< elements; each gradient starts on a 64-byte boundary
  std::int64_t numel = 0;
};

/// Cuts `order` (parameter indices, as their gradients become ready) into buckets: the first closes at
/// `first_bytes`, so that communication starts early, the others at `bytes` (torch's DistributedDataParallel:
/// 1 MiB and 25 MiB). A parameter larger than the limit has a bucket to itself; 0 bytes or less means no
/// limit. Buckets are in the order of their last gradient. Pure.
std::vector<BucketPlan> plan_buckets(std::span<const ParameterShape> parameters,
                                     std::span<const std::size_t> order, std::int64_t first_bytes,
                                     std::int64_t bytes);

}  // namespace cxtrain
