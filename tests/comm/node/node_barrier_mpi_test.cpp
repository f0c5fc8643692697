#include "cxtrain/comm/node/node_barrier.h"

#include <unistd.h>

#include <atomic>

#include "cxtrain/comm/node/shared_memory.h"
#include "support/catch.h"
#include "support/environment_variable.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

TEST_CASE("nobody leaves a node's barrier before all have come, whether early ranks spin or sleep",
          "[node_barrier]") {
  // So many of the first ranks sleep: ranks need not wait in the same way.
  const int sleepers = GENERATE(0, 1, 4);
  const MpiComm comm = test_world().comm().duplicate();
  const test::EnvironmentVariable yields("OMPI_MCA_mpi_yield_when_idle", comm.rank() < sleepers ? "1" : "0");
  NodeBarrier barrier(comm);
  auto window = SharedWindow::allocate(comm, sizeof(std::atomic<int>));
  REQUIRE(window.has_value());
  const auto round_of = [&](int rank) -> std::atomic<int>& {
    return *reinterpret_cast<std::atomic<int>*>(window->segment(rank));
  };
  int early = 0;
  for (int round = 1; round <= 3000; ++round) {
    // Now and then one comes so late that all others sleep.
    if (round % 100 == 0 && round / 100 % comm.size() == comm.rank()) usleep(2000);
    round_of(comm.rank()) = round;
    barrier.wait("test");
    for (int rank = 0; rank < comm.size(); ++rank) early += round_of(rank) < round;
  }
  CHECK(early == 0);
}

}  // namespace
}  // namespace cxtrain
