#pragma once

#include <optional>
#include <span>
#include <string>

#include "cxtrain/report/profile.h"

namespace cxtrain {

/// A node whose connections are slower than those of the other nodes.
struct SlowNode {
  std::string host = {};
  double speed = 1;  ///< over the median of the other nodes

  void fields(auto&& field) {
    field("host", host);
    field("speed", speed);
  }
};

/// Returns the node that exchanges bytes most slowly with the other nodes, by the bytes and the times of all
/// connections. Absent with fewer than three nodes, and where connections have carried bytes for too short a
/// time to tell. Pure.
std::optional<SlowNode> slowest_node(std::span<const RankProfile> ranks);

}  // namespace cxtrain
