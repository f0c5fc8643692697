#include "cxtrain/comm/between_nodes/measure_links.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

namespace cxtrain {

double ring_speed(Links& links, Watchdog& watchdog, std::size_t bytes) {
  constexpr int kRounds = 5;
  const int nodes = links.nodes(), next = (links.node() + 1) % nodes,
            before = (links.node() + nodes - 1) % nodes;
  const std::vector<std::byte> message(bytes);
  std::vector<std::byte> received(bytes);
  double fastest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const Watchdog::Wait wait(watchdog, "a measurement of the network", Watchdog::Wait::Of::some_ranks);
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t left = links.send(next, message), come = links.receive(before, received);
    for (links.proceed(); links.sent(next) < left || links.received(before) < come; links.proceed())
      links.wait();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, seconds.count());
  }
  return static_cast<double>(bytes) / fastest;
}

}  // namespace cxtrain
