#pragma once

#include <cstddef>
#include <span>

namespace cxtrain {

/// A bucket of gradients on its way.
struct BucketTimes {
  double ready;   ///< s after the begin of backward: its last gradient is there
  double travel;  ///< s that its bytes take between the nodes
};

/// Returns the first bucket of those at the end that have to be rounded to half of their bytes, so that
/// gradients arrive nearly as early as if all were rounded: the time after backward is at most a twentieth
/// longer. Buckets travel one after the other. `backward_ended`: s after the begin of backward. Pure.
std::size_t first_exposed_bucket(std::span<const BucketTimes> buckets, double backward_ended);

}  // namespace cxtrain
