#pragma once

#include <cstdint>

#include "cxtrain/base/each_field.h"

namespace cxtrain {

/// The use of a connection from this rank to another node since its beginning, as the kernel counts it.
struct ConnectionUse {
  int node = 0;            ///< the other one
  std::int64_t bytes = 0;  ///< that the other node has received
  double seconds = 0;      ///< in which bytes were under way

  void fields(auto&& field) { CXTRAIN_EACH(field, node, bytes, seconds); }
};

}  // namespace cxtrain
