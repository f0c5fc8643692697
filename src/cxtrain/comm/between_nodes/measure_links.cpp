#include "cxtrain/comm/between_nodes/measure_links.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

namespace cxtrain {
namespace {

/// Sends a message to the next node while one comes from the node before. Returns the seconds.
double pass_on(Links& links, Watchdog& watchdog, std::span<const std::byte> message,
               std::span<std::byte> received) {
  const int nodes = links.nodes(), next = (links.node() + 1) % nodes,
            before = (links.node() + nodes - 1) % nodes;
  const Watchdog::Wait wait(watchdog, "a measurement of the network", Watchdog::Wait::Of::some_ranks);
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t left = links.send(next, message), come = links.receive(before, received);
  for (links.proceed(); links.sent(next) < left || links.received(before) < come; links.proceed())
    links.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

double ring_speed(Links& links, Watchdog& watchdog, std::size_t bytes) {
  constexpr int kRounds = 5;
  const std::vector<std::byte> message(bytes);
  std::vector<std::byte> received(bytes);
  double fastest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round)
    fastest = std::min(fastest, pass_on(links, watchdog, message, received));
  return static_cast<double>(bytes) / fastest;
}

double sustained_ring_speed(Links& links, Watchdog& watchdog, std::size_t bytes) {
  constexpr int kRounds = 20;
  const std::vector<std::byte> message(bytes);
  std::vector<std::byte> received(bytes);
  double seconds = 0;
  for (int round = 0; round < kRounds; ++round) seconds += pass_on(links, watchdog, message, received);
  return kRounds * static_cast<double>(bytes) / seconds;
}

}  // namespace cxtrain
