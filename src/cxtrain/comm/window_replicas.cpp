#include "cxtrain/comm/window_replicas.h"

#include <algorithm>

namespace cxtrain {

void WindowReplicas::all_gather(std::span<const std::size_t> ends) {
  barrier_.wait("all_gather");  // every shard is written, and nobody uses the old values
  // Fetched rather than sent: what a rank reads next then lies in its own caches. Each begins with its
  // neighbour, so that no two read from one.
  const auto ranks = static_cast<std::size_t>(size()), mine = static_cast<std::size_t>(rank());
  for (std::size_t step = 1; step < ranks; ++step) {
    const std::size_t other = (mine + step) % ranks, begin = other == 0 ? 0 : ends[other - 1];
    std::copy_n(window_.segments()[other] + begin, ends[other] - begin, window_.mine() + begin);
  }
  barrier_.wait("all_gather");  // everyone has read them
}

}  // namespace cxtrain
