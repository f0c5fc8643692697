#pragma once

#include "cxtrain/comm/host_communicator.h"
#include "support/mpi_world.h"

namespace cxtrain::test {

/// Over all ranks of the test, on their node or (to test what crosses nodes) on pretended nodes of `per_node`
/// ranks.
inline HostCommunicator host_communicator(int per_node = 0, NetworkWay way = NetworkWay::tcp) {
  MpiWorld& world = test_world();
  if (per_node == 0) return HostCommunicator(world);
  return HostCommunicator(world, world.comm().split(world.rank() / per_node, world.rank()), way);
}

}  // namespace cxtrain::test
