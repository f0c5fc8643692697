#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cxtrain/strategy/strategy.h"
#include "replica_exchange.h"

namespace cxtrain {

/// `make_replica_exchange`, or another one with its arguments.
using MakeExchange = std::function<std::unique_ptr<ReplicaExchange>(std::vector<Replica>&, ReplicaThreads&,
                                                                    const StrategyContext&)>;

/// `dp`: one process with a replica of the model on each of its devices and a thread for each replica. A
/// batch is split between them along dimension 0; what they log and their losses are averaged by samples;
/// gradients are summed into the primary, the first replica, on which hooks and the optimizer work. Replicas
/// are kept: before each forward pass they take over the primary's buffers and modes, and what a forward pass
/// does to the buffers of the others is lost, as with torch.nn.DataParallel.
std::unique_ptr<Strategy> make_dp_strategy(MakeExchange make_exchange = make_replica_exchange);

}  // namespace cxtrain
