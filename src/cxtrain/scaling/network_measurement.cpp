#include "cxtrain/scaling/network_measurement.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <set>

#include "cxtrain/accelerator/make_communicator.h"
#include "cxtrain/base/clock.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/scaling/statistics.h"

namespace cxtrain {
namespace {

constexpr std::int64_t kMinMessages = 5, kMaxMessages = 200;
constexpr std::int64_t kBytesOfSize = std::int64_t{64} << 20;  ///< about so many are sent for each size

std::int64_t messages_of(std::int64_t bytes) {
  return std::clamp(kBytesOfSize / bytes, kMinMessages, kMaxMessages);
}

std::vector<std::int64_t> sizes_between(std::int64_t smallest, std::int64_t largest) {
  std::vector<std::int64_t> sizes;
  constexpr std::int64_t kStep = 8;
  for (std::int64_t bytes = smallest; bytes <= largest; bytes *= kStep) sizes.push_back(bytes);
  return sizes;
}

/// The median time of `exchange`, after one that is not counted.
double median_time(std::int64_t times, const std::function<void()>& exchange) {
  const SteadyClock clock;
  exchange();
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < times; ++i) {
    const double begin = clock.now();
    exchange();
    seconds.push_back(clock.now() - begin);
  }
  return median_of(std::move(seconds));
}

/// Rank 0 and another rank call it.
LinkTimes measure_link(Communicator& communicator, int other) {
  LinkTimes link{.from = 0, .to = other};
  for (const std::int64_t bytes : sizes_between(8, std::int64_t{16} << 20)) {
    const at::Tensor message = at::zeros({bytes}, at::kByte);
    const auto there_and_back = [&] {
      if (communicator.rank() == 0) {
        communicator.send(message, other);
        communicator.recv(message, other);
      } else {
        communicator.recv(message, 0);
        communicator.send(message, 0);
      }
      communicator.join();
    };
    link.one_way.push_back({bytes, median_time(messages_of(bytes), there_and_back) / 2});
  }
  return link;
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes >= 1 << 20) return std::to_string(bytes >> 20) + " MiB";
  return bytes >= 1 << 10 ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes) + " B";
}

}  // namespace

NetworkTimes measure_network(World& world) {
  const at::Device device(at::kCPU);
  const std::unique_ptr<Communicator> communicator = make_communicator(world, {&device, 1}, nullptr);
  const WorldFacts& facts = world.facts();
  NetworkTimes times{
      .ranks = world.size(), .nodes = facts.num_nodes, .communicator = communicator->description()};

  const std::vector<std::string> hosts = world.all_gather(facts.hostname);
  const std::vector<int> nodes = gather_values(world, facts.node);
  std::set<int> seen{nodes.front()};
  for (int rank = 1; rank < world.size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (times.nodes > 1 ? !seen.insert(nodes[index]).second : rank > 1) continue;
    if (world.is_root() || world.rank() == rank) {
      LinkTimes link = measure_link(*communicator, rank);
      link.from_host = hosts.front();
      link.to_host = hosts[index];
      times.links.push_back(std::move(link));
    }
    world.barrier();
  }

  for (const std::int64_t bytes : sizes_between(std::int64_t{4} << 10, std::int64_t{16} << 20)) {
    constexpr std::int64_t kFloat = sizeof(float);
    const at::Tensor values = communicator->allocate(bytes / kFloat, at::kFloat, at::kCPU);
    values.zero_();
    const auto sum = [&] {
      communicator->all_reduce(values, ReduceOp::sum);
      communicator->join();
    };
    times.all_reduce.push_back({bytes, median_time(messages_of(bytes), sum)});
  }
  return times;
}

std::string to_text(const NetworkTimes& times) {
  std::string text = std::to_string(times.ranks) + " ranks on " + counted(times.nodes, "node") + ": " +
                     times.communicator + '\n';
  for (const LinkTimes& link : times.links) {
    const MessageTime &smallest = link.one_way.front(), &largest = link.one_way.back();
    text += formatted("rank %d on %s to rank %d on %s: %.1f us for %s, %.2f Gbit/s for %s\n", link.from,
                      link.from_host.c_str(), link.to, link.to_host.c_str(), 1e6 * smallest.seconds,
                      bytes_text(smallest.bytes).c_str(),
                      8e-9 * static_cast<double>(largest.bytes) / largest.seconds,
                      bytes_text(largest.bytes).c_str());
  }
  for (const MessageTime& each : times.all_reduce) {
    text += formatted("all-reduce of %7s: %9.3f ms, %6.2f GB/s\n", bytes_text(each.bytes).c_str(),
                      1e3 * each.seconds, 1e-9 * static_cast<double>(each.bytes) / each.seconds);
  }
  return text;
}

}  // namespace cxtrain
