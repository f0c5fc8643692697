#include "cxtrain/cluster/clock_offset.h"

#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/cluster/exchange.h"

namespace cxtrain {

ClockOffset clock_offset(World& world) {
  constexpr std::size_t kRounds = 5;
  const SteadyClock clock;
  std::vector<double> times(kRounds), durations(kRounds);
  for (std::size_t round = 0; round < kRounds; ++round) {
    world.barrier();
    const double begin = clock.now();
    world.barrier();
    times[round] = seconds_since_1970();
    durations[round] = clock.now() - begin;
  }
  const auto of_root = broadcast_value(world, std::vector{times, durations});
  // All ranks have left a barrier within the time that it took the one that was last to come.
  ClockOffset best{0, -1};
  for (std::size_t round = 0; round < kRounds; ++round) {
    const double error = of_root[1][round] + durations[round];
    if (best.error < 0 || error < best.error) best = {times[round] - of_root[0][round], error};
  }
  if (world.is_root()) best.seconds = 0;
  return best;
}

}  // namespace cxtrain
