#pragma once

#include <string>
#include <vector>

namespace cxtrain {

class World;

/// The machines that a world's nodes are: containers and emulated nodes may be one, whose cores and GPUs they
/// share, whatever they are called.
struct Machines {
  std::vector<std::string> of_nodes;  ///< `machine_id` of each node
  bool shared = false;                ///< whether any two nodes are one
};

/// Asks the first rank of each node. Collective.
Machines gather_machines(World& world);

}  // namespace cxtrain
