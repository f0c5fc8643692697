#include "cxtrain/device/hardware.h"
#include "support/catch.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

TEST_CASE("every rank gets the same picture of all nodes") {
  const Hardware hardware = gather_hardware(test_world());
  CHECK(static_cast<int>(hardware.nodes.size()) == test_world().facts().num_nodes);
  CHECK(hardware.nodes[0].hostname == test_world().facts().hostname);
  const std::string mine = to_json(hardware);
  for (const std::string& other : test_world().all_gather(mine)) CHECK(other == mine);
}

}  // namespace
}  // namespace cxtrain
