#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "cxtrain/accelerator/devices.h"

namespace cxtrain::gpu_bench {

/// Seconds of one call.
struct CallTime {
  double told = 0;  ///< until the host had told the device what to do
  double done = 0;  ///< until the device had done it
};

/// Medians over `rounds` of `calls` calls each, one after the other, after a round that counts for nothing.
/// The device is idle before and after each round.
template <class Work>
CallTime time_calls(c10::Device device, int rounds, int calls, const Work& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> told, done;
  for (int round = 0; round <= rounds; ++round) {
    synchronize({&device, 1});
    const auto begin = Clock::now();
    for (int call = 0; call < calls; ++call) work();
    const auto enqueued = Clock::now();
    synchronize({&device, 1});
    const auto end = Clock::now();
    if (round == 0) continue;
    told.push_back(std::chrono::duration<double>(enqueued - begin).count() / calls);
    done.push_back(std::chrono::duration<double>(end - begin).count() / calls);
  }
  const auto median = [](std::vector<double>& seconds) {
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  };
  return {median(told), median(done)};
}

}  // namespace cxtrain::gpu_bench
