#pragma once

#include <string>

#include "cxtrain/config/plan.h"

namespace cxtrain {

/// The nodes of a plan as boxes with a box for each rank in them, for a terminal of so many columns that
/// shows UTF-8:
///
///     ┌ node 0 · n1 · 32 cores ─┐
///     │ ┌ rank 0 ┐ ┌ rank 1 ┐   │
///     │ │ cuda:0 │ │ cuda:1 │   │
///     │ │ GPU 0  │ │ GPU 1  │   │
///     │ └────────┘ └────────┘   │
///     └─────────────────────────┘
///
/// Nodes with the same devices are drawn once. Of many nodes and ranks the first are drawn, and the others
/// counted. Empty where the plan has no ranks, or there is too little room.
std::string draw_nodes(const Plan& plan, const Hardware& hardware, int columns);

}  // namespace cxtrain
