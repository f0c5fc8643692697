#pragma once

#include <cstdint>

namespace cxtrain {

/// What the kernel says of a connection from this rank to another node, since the connection was made.
struct ConnectionUse {
  int node = 0;            ///< the other one
  std::int64_t bytes = 0;  ///< that the other node has received
  double seconds = 0;      ///< in which bytes were under way

  void fields(auto&& field) {
    field("node", node);
    field("bytes", bytes);
    field("seconds", seconds);
  }
};

}  // namespace cxtrain
