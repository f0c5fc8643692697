#include "cxtrain/scaling/slow_node.h"

#include <algorithm>
#include <map>
#include <vector>

#include "cxtrain/scaling/statistics.h"

namespace cxtrain {

/// A node sends to all others at one time, and receives from all of them: its speed is the sum over its
/// connections.
std::optional<SlowNode> slowest_node(std::span<const RankProfile> ranks) {
  constexpr double kLeastSeconds = 0.05;  // the kernel counts in ticks of up to 10 ms
  std::map<int, double> speeds;
  std::map<int, std::string> hosts;
  for (const RankProfile& rank : ranks) {
    hosts.emplace(rank.node, rank.host);
    for (const ConnectionUse& each : rank.connections) {
      if (each.seconds < kLeastSeconds) return std::nullopt;
      const double speed = static_cast<double>(each.bytes) / each.seconds;
      speeds[rank.node] += speed;
      speeds[each.node] += speed;
    }
  }
  if (speeds.size() < 3) return std::nullopt;
  const auto slowest = std::min_element(speeds.begin(), speeds.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<double> others;
  for (const auto& [node, speed] : speeds) {
    if (node != slowest->first) others.push_back(speed);
  }
  return SlowNode{.host = hosts[slowest->first], .speed = slowest->second / median_of(others)};
}

}  // namespace cxtrain
