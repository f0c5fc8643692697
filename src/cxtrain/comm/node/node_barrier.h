#pragma once

#include <atomic>
#include <cstdint>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/node/doorbell.h"
#include "cxtrain/comm/node/shared_memory.h"

namespace cxtrain {

/// A barrier among the ranks of a node: one atomic counter in shared memory. A hundred times cheaper than
/// MPI's where the ranks arrive together. Those that come early wait busily; where the node has more ranks
/// than cores, or the environment says that ranks yield (OMPI_MCA_mpi_yield_when_idle=1), they soon sleep.
class NodeBarrier {
 public:
  /// Collective over `node_comm`, whose watchdog bounds the waits.
  explicit NodeBarrier(const MpiComm& node_comm);

  /// Returns when every rank of the node has called it as often as this one. Writes made before are visible
  /// after. `operation` (a literal) names the wait.
  void wait(const char* operation) {
    arrive();
    finish(operation);
  }
  /// Whether ranks that wait may keep their cores.
  bool has_cores_to_spare() const { return patience_.yields > kFewYields; }
  /// The two halves of `wait`: a rank may work in between. A rank arrives again after it has finished.
  void arrive();
  void finish(const char* operation);

 private:
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> arrived;
    Doorbell bell;  ///< rings when all have arrived
  };

  static constexpr int kFewYields = 50;
  /// How often a rank looks whether all have come, before it sleeps.
  struct Patience {
    int spins = 0;   ///< keeping its core
    int yields = 0;  ///< offering it to others in between
  };

  SharedWindow window_;
  Counter* counter_;
  std::uint64_t ranks_;
  std::uint64_t generation_ = 0;
  Patience patience_;
  Watchdog& watchdog_;
};

}  // namespace cxtrain
