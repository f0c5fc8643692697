#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/text.h"

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

/// A bucket of gradients on its way.
struct BucketTimes {
  double ready;   ///< s after the begin of backward: its last gradient is there
  double travel;  ///< s that its bytes take between the nodes
};

/// Returns the first bucket of those at the end that have to be rounded to half of their bytes, so that
/// gradients arrive nearly as early as if all were rounded: the time after backward is at most a twentieth
/// longer. Buckets travel one after the other. `backward_ended`: s after the begin of backward. Pure.
std::size_t first_exposed_bucket(std::span<const BucketTimes> buckets, double backward_ended);

/// Shows an operation "bucket 2, 1.05 MB" in a trace while the object lives. The rank sends complete
/// gradients meanwhile. Without a trace the object does nothing.
class BucketRange {
 public:
  BucketRange(std::size_t index, std::size_t bytes) : range_(at::RecordScope::FUNCTION) {
    if (!range_.isActive()) return;
    range_.before("bucket " + std::to_string(index) + ", " +
                  readable_bytes(static_cast<std::int64_t>(bytes)));
  }

 private:
  at::RecordFunction range_;
};

}  // namespace cxtrain
