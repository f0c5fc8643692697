#include "cxtrain/reduce/buckets.h"

#include <c10/core/ScalarType.h>

#include <map>
#include <string>
#include <utility>

#include "cxtrain/base/align.h"

namespace cxtrain {
namespace {

std::int64_t aligned(std::int64_t elements, at::ScalarType dtype) {
  return round_up(elements, static_cast<std::int64_t>(kCacheLine / c10::elementSize(dtype)));
}

}  // namespace

std::vector<BucketPlan> plan_buckets(std::span<const ParameterShape> parameters,
                                     std::span<const std::size_t> order, std::int64_t first_bytes,
                                     std::int64_t bytes) {
  std::vector<BucketPlan> closed;
  std::map<std::pair<at::ScalarType, std::string>, BucketPlan> open;
  for (const std::size_t index : order) {
    const ParameterShape& parameter = parameters[index];
    BucketPlan& bucket = open[{parameter.dtype, parameter.device.str()}];
    bucket.parameters.push_back(index);
    bucket.offsets.push_back(bucket.numel);
    bucket.numel += aligned(parameter.numel, parameter.dtype);
    const std::int64_t limit = closed.empty() ? first_bytes : bytes;
    const std::int64_t filled = bucket.numel * static_cast<std::int64_t>(c10::elementSize(parameter.dtype));
    if (limit > 0 && filled >= limit) closed.push_back(std::exchange(bucket, {}));
  }
  for (auto& [kind, bucket] : open) {
    if (!bucket.parameters.empty()) closed.push_back(std::move(bucket));
  }
  return closed;
}

}  // namespace cxtrain
