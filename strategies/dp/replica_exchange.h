#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/strategy/strategy.h"
#include "replica.h"
#include "replica_threads.h"

namespace cxtrain {

/// How values travel between the replicas of one process. Called by the thread that runs the loop, while no
/// replica works. Nothing waits for a device.
class ReplicaExchange {
 public:
  virtual ~ReplicaExchange() = default;

  /// For the log.
  virtual std::string description() const = 0;
  /// The primary's parameters to all replicas.
  virtual void send_parameters() = 0;
  /// The primary's buffers to the first `count` replicas; what theirs held is lost.
  virtual void send_buffers(std::size_t count) = 0;
  /// The gradients of all replicas, added up in the order of the replicas, to the primary; the others are
  /// left without any. A replica without a gradient adds nothing.
  virtual void sum_gradients() = 0;
};

/// The exchange that fits where the replicas are: shared memory for one device, the accelerator's collectives
/// for a device each. Replicas, threads and context outlive it. Throws ConfigError for other layouts,
/// CommunicationError.
std::unique_ptr<ReplicaExchange> make_replica_exchange(std::vector<Replica>& replicas,
                                                       ReplicaThreads& threads,
                                                       const StrategyContext& context);

}  // namespace cxtrain
