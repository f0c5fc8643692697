#include "replica_exchange.h"

#include <algorithm>

#include "cxtrain/base/error.h"
#include "peer_exchange.h"
#include "shared_exchange.h"

namespace cxtrain {

std::unique_ptr<ReplicaExchange> make_replica_exchange(std::vector<Replica>& replicas,
                                                       ReplicaThreads& threads,
                                                       const StrategyContext& context) {
  const at::Device first = replicas[0].device;
  if (std::all_of(replicas.begin(), replicas.end(), [&](const Replica& r) { return r.device == first; })) {
    return std::make_unique<SharedExchange>(replicas, threads);
  }
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    for (std::size_t other = 0; other < r; ++other) {
      if (replicas[r].device != replicas[other].device) continue;
      throw ConfigError("trainer.devices",
                        "replicas " + std::to_string(other) + " and " + std::to_string(r) +
                            " of dp are both on " + replicas[r].device.str() +
                            ", which cannot talk to itself",
                        "name each GPU once", MessageCode::conflicting_options);
    }
  }
  std::vector<at::Device> devices;
  for (const Replica& replica : replicas) devices.push_back(replica.device);
  return std::make_unique<PeerExchange>(replicas, context.accelerator->connect_peers(context.world, devices));
}

}  // namespace cxtrain
