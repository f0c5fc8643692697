#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "cxtrain/comm/between_nodes/node_board.h"
#include "cxtrain/comm/between_nodes/part_exchange.h"
#include "cxtrain/comm/between_nodes/slice_exchange.h"

namespace cxtrain {

/// The name of waits for sums over nodes.
inline constexpr const char* kOverNodes = "all_reduce over nodes";

/// The ways in which a courier exchanges an array.
struct CourierExchanges {
  SliceExchange slices;
  PartExchange parts;
};

/// An array that a courier exchanges.
class Errand {
 public:
  virtual ~Errand() = default;
  /// Begins one of the exchanges with the array, and returns the exchange.
  virtual Exchange& begin(CourierExchanges& exchanges) = 0;
  /// Waits until the array has its values, or until `stop`. Returns whether the array has them. If `stop` is
  /// set already, does not wait.
  virtual bool wait_for_values(const std::atomic<bool>& stop) = 0;
  /// The result is written.
  virtual void finished() = 0;
  /// Returns the bytes of the array, as it travels between nodes.
  virtual std::size_t bytes() const = 0;
};

/// Combines arrays over the nodes, one after the other. Every node's courier gets equal arrays in the same
/// order. The rank's thread calls the functions.
class Courier {
 public:
  virtual ~Courier() = default;

  /// Leaves an errand to the courier.
  virtual void post(std::unique_ptr<Errand> errand) = 0;
  /// Waits until the first `couriers` ranks of the node have finished an exchange.
  virtual void wait_until_finished(NodeBoard& board, std::uint64_t exchange, int couriers) = 0;
};

}  // namespace cxtrain
