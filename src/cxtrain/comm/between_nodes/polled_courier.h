#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/comm/between_nodes/courier.h"
#include "cxtrain/comm/between_nodes/links.h"

namespace cxtrain {

/// A courier without a thread, for links that only the rank's thread may use: exchanges go on whenever the
/// rank posts an errand or waits for one. A rank that waits keeps its core.
class PolledCourier final : public Courier {
 public:
  /// The watchdog outlives the courier: it applies its deadline to each wait. `chunk_bytes`: equal on all
  /// nodes.
  PolledCourier(std::unique_ptr<Links> links, std::size_t chunk_bytes, Watchdog& watchdog);

  /// Leaks the memory of an exchange that an error has ended: MPI may still use it.
  ~PolledCourier() override;
  PolledCourier(const PolledCourier&) = delete;
  PolledCourier& operator=(const PolledCourier&) = delete;

  void post(std::unique_ptr<Errand> errand) override;
  void wait_until_finished(NodeBoard& board, std::uint64_t exchange, int couriers) override;

 private:
  /// Does all that can be done now. Returns whether that was anything.
  bool proceed();

  std::unique_ptr<Links> links_;
  Watchdog& watchdog_;
  std::unique_ptr<CourierExchanges> exchanges_;
  std::deque<std::unique_ptr<Errand>> errands_;
  Exchange* exchange_ = nullptr;  ///< under way: of the first errand
  std::int64_t began_ = 0;        ///< `TravelLog::begin` of this exchange
};

}  // namespace cxtrain
