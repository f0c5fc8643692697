#include "replica_exchange.h"

#include <algorithm>

#include "cxtrain/base/error.h"
#include "shared_exchange.h"

#ifdef CXTRAIN_WITH_CUDA
#include "nccl_exchange.h"
#endif

namespace cxtrain {

std::unique_ptr<ReplicaExchange> make_replica_exchange(std::vector<Replica>& replicas,
                                                       ReplicaThreads& threads, double timeout_seconds) {
  const at::Device first = replicas[0].device;
  if (std::all_of(replicas.begin(), replicas.end(), [&](const Replica& r) { return r.device == first; })) {
    return std::make_unique<SharedExchange>(replicas, threads);
  }
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    for (std::size_t other = 0; other < r; ++other) {
      if (replicas[r].device != replicas[other].device) continue;
      throw ConfigError("trainer.devices",
                        "replicas " + std::to_string(other) + " and " + std::to_string(r) +
                            " of dp are both on " + replicas[r].device.str() + ", which NCCL refuses",
                        "name each GPU once");
    }
  }
#ifdef CXTRAIN_WITH_CUDA
  return std::make_unique<NcclExchange>(replicas, timeout_seconds);
#else
  static_cast<void>(timeout_seconds);
  throw ConfigError("trainer.strategy",
                    "dp on several GPUs needs NCCL, and this cxtrain was built without CUDA",
                    "--accelerator cpu, or configure it with -DCXTRAIN_CUDA=ON");
#endif
}

}  // namespace cxtrain
