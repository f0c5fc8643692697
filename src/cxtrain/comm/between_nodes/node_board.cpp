#include "cxtrain/comm/between_nodes/node_board.h"

#include <utility>

namespace cxtrain {

std::optional<NodeBoard> NodeBoard::make(const MpiComm& node_comm) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
  std::optional<SharedWindow> window = SharedWindow::allocate(node_comm, sizeof(Counters));
  if (!window) return std::nullopt;
  return NodeBoard(std::move(*window), node_comm.size());
}

bool NodeBoard::wait_for_all(std::uint64_t exchange, const std::atomic<bool>& stop) {
  constexpr int kLookForStop = 100;  // milliseconds
  const auto all_are_here = [&] { return reached(&Counters::arrived, exchange, ranks_); };
  if (!all_are_here()) counters(0).bell.sleep_until([&] { return all_are_here() || stop; }, kLookForStop);
  return all_are_here();
}

void NodeBoard::wait_until_finished(std::uint64_t exchange, int couriers) {
  const auto all_are_done = [&] { return have_finished(exchange, couriers); };
  if (!all_are_done()) counters(0).bell.sleep_until(all_are_done);
}

void NodeBoard::note(std::atomic<std::uint64_t> Counters::*counter, std::uint64_t exchange) {
  (counters(window_.rank()).*counter).store(exchange);
  counters(0).bell.ring();
}

bool NodeBoard::reached(std::atomic<std::uint64_t> Counters::*counter, std::uint64_t exchange,
                        int ranks) const {
  for (int rank = 0; rank < ranks; ++rank) {
    if ((counters(rank).*counter).load() < exchange) return false;
  }
  return true;
}

}  // namespace cxtrain
