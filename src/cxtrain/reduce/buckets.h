#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/tensor/parameter_shape.h"

namespace cxtrain {

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
