#include "cxtrain/comm/between_nodes/measure_links.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

namespace cxtrain {
namespace {

constexpr const char* kMeasuring = "a measurement of the network";

template <class Round>
double fastest_round(const Round& round) {
  constexpr int kRounds = 5;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    round();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, seconds.count());
  }
  return fastest;
}

}  // namespace

RingSpeeds measure_ring(Links& links, const MpiComm& rail, std::size_t bytes) {
  const int nodes = links.nodes(), next = (links.node() + 1) % nodes,
            before = (links.node() + nodes - 1) % nodes;
  const std::vector<std::byte> message(bytes);
  std::vector<std::byte> received(bytes);
  const double by_links = fastest_round([&] {
    const Watchdog::Wait wait(rail.watchdog(), kMeasuring, Watchdog::Wait::Of::some_ranks);
    const std::uint64_t left = links.send(next, message), come = links.receive(before, received);
    for (links.proceed(); links.sent(next) < left || links.received(before) < come; links.proceed())
      links.wait();
  });
  const double by_mpi = fastest_round([&] {
    rail.call(
        kMeasuring,
        [&](MPI_Comm ranks) {
          const int count = static_cast<int>(bytes);
          return MPI_Sendrecv(message.data(), count, MPI_BYTE, next, 0, received.data(), count, MPI_BYTE,
                              before, 0, ranks, MPI_STATUS_IGNORE);
        },
        Watchdog::Wait::Of::some_ranks);
  });
  const auto size = static_cast<double>(bytes);
  return {.links = size / by_links, .mpi = size / by_mpi};
}

}  // namespace cxtrain
