#pragma once

#include <cstdint>

#include "cxtrain/base/each_field.h"

namespace cxtrain {

/// Bytes that a training takes on a rank, besides activations and the program itself. Memory that ranks share
/// counts in equal parts.
struct RankMemory {
  std::int64_t parameters = 0;  ///< and buffers
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;  ///< state, and master weights

  std::int64_t total() const { return parameters + gradients + optimizer; }
  bool operator==(const RankMemory&) const = default;
  RankMemory& operator+=(const RankMemory& other) {
    parameters += other.parameters;
    gradients += other.gradients;
    optimizer += other.optimizer;
    return *this;
  }

  void fields(auto&& field) { CXTRAIN_EACH(field, parameters, gradients, optimizer); }
};

}  // namespace cxtrain
