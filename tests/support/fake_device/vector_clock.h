#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cxtrain::test {

/// What is known to have come before: of each stream the number of its last operation that did. A stream has
/// one, the host has one, and a recorded event is a copy of its stream's.
class VectorClock {
 public:
  std::uint64_t at(std::size_t stream) const { return stream < last_.size() ? last_[stream] : 0; }
  /// Notes the next operation of this stream and returns its number, from 1 on.
  std::uint64_t tick(std::size_t stream) {
    if (stream >= last_.size()) last_.resize(stream + 1);
    return ++last_[stream];
  }
  /// What came before `other` has come before this, too.
  void join(const VectorClock& other) {
    if (other.last_.size() > last_.size()) last_.resize(other.last_.size());
    for (std::size_t i = 0; i < other.last_.size(); ++i) last_[i] = std::max(last_[i], other.last_[i]);
  }

 private:
  std::vector<std::uint64_t> last_;
};

}  // namespace cxtrain::test
