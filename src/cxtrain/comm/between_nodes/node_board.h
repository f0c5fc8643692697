#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/node/doorbell.h"
#include "cxtrain/comm/node/shared_memory.h"

namespace cxtrain {

/// Counters in memory that the ranks of a node share: which exchanges a rank has brought its values for, and
/// which exchanges its courier has finished. Exchanges are numbered from 1, alike on all ranks.
class NodeBoard {
 public:
  /// Null if the node has no shared memory left, perhaps on some ranks only. Collective over `node_comm`.
  static std::optional<NodeBoard> make(const MpiComm& node_comm);

  /// Notes that this rank's values of the exchange are written. Writes made before are visible to ranks that
  /// have waited for it.
  void arrive(std::uint64_t exchange) { note(&Counters::arrived, exchange); }
  /// Notes that this rank's courier has done its part of the exchange.
  void finish(std::uint64_t exchange) { note(&Counters::finished, exchange); }

  /// Waits until all ranks have brought their values, or until `stop`. Returns whether they have. If `stop`
  /// is set already, does not wait.
  bool wait_for_all(std::uint64_t exchange, const std::atomic<bool>& stop);
  /// Waits until the first `couriers` ranks of the node have finished the exchange.
  void wait_until_finished(std::uint64_t exchange, int couriers);
  bool have_finished(std::uint64_t exchange, int couriers) const {
    return reached(&Counters::finished, exchange, couriers);
  }

 private:
  struct alignas(64) Counters {
    std::atomic<std::uint64_t> arrived, finished;
    Doorbell bell;  ///< of the board; in the first rank's
  };

  explicit NodeBoard(SharedWindow window, int ranks) : window_(std::move(window)), ranks_(ranks) {}
  Counters& counters(int rank) const { return *reinterpret_cast<Counters*>(window_.segment(rank)); }
  void note(std::atomic<std::uint64_t> Counters::*counter, std::uint64_t exchange);
  bool reached(std::atomic<std::uint64_t> Counters::*counter, std::uint64_t exchange, int ranks) const;

  SharedWindow window_;
  int ranks_;
};

}  // namespace cxtrain
