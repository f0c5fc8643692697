#include "cxtrain/comm/between_nodes/node_board.h"

#include <utility>

#include "cxtrain/comm/node/futex.h"

namespace cxtrain {

std::optional<NodeBoard> NodeBoard::make(const MpiComm& node_comm) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
  std::optional<SharedWindow> window = SharedWindow::allocate(node_comm, sizeof(Counters));
  if (!window) return std::nullopt;
  return NodeBoard(std::move(*window), node_comm.size());
}

bool NodeBoard::wait_for_all(std::uint64_t exchange, const std::atomic<bool>& stop) {
  return wait(&Counters::arrived, exchange, ranks_, &stop);
}

void NodeBoard::wait_until_finished(std::uint64_t exchange, int couriers) {
  wait(&Counters::finished, exchange, couriers, nullptr);
}

void NodeBoard::note(std::atomic<std::uint64_t> Counters::*counter, std::uint64_t exchange) {
  (counters(window_.rank()).*counter).store(exchange);
  Counters& board = counters(0);
  board.changes.fetch_add(1);
  if (board.sleepers.load() > 0) wake_all(board.changes);
}

bool NodeBoard::reached(std::atomic<std::uint64_t> Counters::*counter, std::uint64_t exchange,
                        int ranks) const {
  for (int rank = 0; rank < ranks; ++rank) {
    if ((counters(rank).*counter).load(std::memory_order_acquire) < exchange) return false;
  }
  return true;
}

bool NodeBoard::wait(std::atomic<std::uint64_t> Counters::*counter, std::uint64_t exchange, int ranks,
                     const std::atomic<bool>* stop) {
  constexpr int kLookForStop = 100;  // milliseconds
  if (reached(counter, exchange, ranks)) return true;
  Counters& board = counters(0);
  // Either who notes a change sees that somebody may sleep, or the sleeper sees the change.
  board.sleepers.fetch_add(1);
  bool is_reached = false;
  for (;;) {
    const std::uint32_t changes = board.changes.load();
    is_reached = reached(counter, exchange, ranks);
    if (is_reached || (stop != nullptr && stop->load())) break;
    sleep_while(board.changes, changes, stop == nullptr ? -1 : kLookForStop);
  }
  board.sleepers.fetch_sub(1);
  return is_reached;
}

}  // namespace cxtrain
