#include "cxtrain/reduce/exposed_buckets.h"

#include <algorithm>

namespace cxtrain {
namespace {

/// When the last bucket has arrived if the buckets from `rounded` on have half of their bytes.
double arrival(std::span<const BucketTimes> buckets, std::size_t rounded) {
  double arrived = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i)
    arrived = std::max(arrived, buckets[i].ready) + buckets[i].travel * (i < rounded ? 1 : 0.5);
  return arrived;
}

}  // namespace

std::size_t first_exposed_bucket(std::span<const BucketTimes> buckets, double backward_ended) {
  constexpr double kLonger = 1.05;
  const double most = kLonger * std::max(0.0, arrival(buckets, 0) - backward_ended);
  for (std::size_t first = buckets.size(); first > 0; --first) {
    if (arrival(buckets, first) - backward_ended <= most) return first;
  }
  return 0;
}

}  // namespace cxtrain
