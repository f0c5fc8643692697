#pragma once

#include <cstddef>

#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/comm/between_nodes/links.h"

namespace cxtrain {

/// Returns the speed of messages around the ring of all nodes, in bytes a second: each node sends to the next
/// node while it receives from the node before. This node's speed, in the fastest of several rounds, with
/// messages of `bytes`. The ranks that the links connect call it together.
double ring_speed(Links& links, Watchdog& watchdog, std::size_t bytes);
/// Returns the mean of this speed over many rounds: an algorithm of congestion control needs several rounds
/// to reach its speed.
double sustained_ring_speed(Links& links, Watchdog& watchdog, std::size_t bytes);

}  // namespace cxtrain
