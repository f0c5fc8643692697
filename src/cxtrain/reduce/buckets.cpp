#include "cxtrain/reduce/buckets.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "cxtrain/base/align.h"

namespace cxtrain {
namespace {

std::int64_t aligned(std::int64_t elements, at::ScalarType dtype) {
  return round_up(elements, static_cast<std::int64_t>(kCacheLine / c10::elementSize(dtype)));
}

/// When the last bucket has arrived if the buckets from `rounded` on have half of their bytes.
double arrival(std::span<const BucketTimes> buckets, std::size_t rounded) {
  double arrived = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i)
    arrived = std::max(arrived, buckets[i].ready) + buckets[i].travel * (i < rounded ? 1 : 0.5);
  return arrived;
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

std::size_t first_exposed_bucket(std::span<const BucketTimes> buckets, double backward_ended) {
  constexpr double kLonger = 1.05;
  const double most = kLonger * std::max(0.0, arrival(buckets, 0) - backward_ended);
  for (std::size_t first = buckets.size(); first > 0; --first) {
    if (arrival(buckets, first) - backward_ended <= most) return first;
  }
  return 0;
}

}  // namespace cxtrain
