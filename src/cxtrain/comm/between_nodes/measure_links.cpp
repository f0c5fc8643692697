#include "cxtrain/comm/between_nodes/measure_links.h"

#include <algorithm>
#include <array>
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

RingTimes measure_ring(Links& links, const MpiComm& rail, std::size_t bytes) {
  const int nodes = links.nodes(), next = (links.node() + 1) % nodes,
            before = (links.node() + nodes - 1) % nodes;
  const std::vector<std::byte> message(bytes);
  std::vector<std::byte> received(bytes);
  std::array<double, 2> seconds{};
  seconds[0] = fastest_round([&] {
    const Watchdog::Wait wait(rail.watchdog(), kMeasuring, Watchdog::Wait::Of::some_ranks);
    const std::uint64_t left = links.send(next, message), come = links.receive(before, received);
    for (links.proceed(); links.sent(next) < left || links.received(before) < come; links.proceed())
      links.wait();
  });
  seconds[1] = fastest_round([&] {
    rail.call(
        kMeasuring,
        [&](MPI_Comm ranks) {
          const int count = static_cast<int>(bytes);
          return MPI_Sendrecv(message.data(), count, MPI_BYTE, next, 0, received.data(), count, MPI_BYTE,
                              before, 0, ranks, MPI_STATUS_IGNORE);
        },
        Watchdog::Wait::Of::some_ranks);
  });
  rail.call(
      kMeasuring,
      [&](MPI_Comm ranks) {
        return MPI_Allreduce(MPI_IN_PLACE, seconds.data(), 2, MPI_DOUBLE, MPI_MAX, ranks);
      },
      Watchdog::Wait::Of::some_ranks);
  return {.links = seconds[0], .mpi = seconds[1]};
}

}  // namespace cxtrain
