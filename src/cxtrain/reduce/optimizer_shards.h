#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node_replicas.h"
#include "cxtrain/reduce/shard_plan.h"
#include "cxtrain/tensor/named_tensor.h"

namespace cxtrain {

/// The optimizer's work, and its state, divided among the ranks of a node (weight update sharding, Xu et al.
/// 2020; ZeRO's first stage, Rajbhandari et al. 2020, within a node).
///
/// Each rank updates its shard of the parameters and takes the others' from their ranks. The parameters live,
/// from here on and also after this, in memory that the node's ranks map from each other, so that a shard is
/// copied once and never sent. Every rank has a copy of its own: what a hook does to parameters on all ranks
/// is done once to each. Nodes divide the work each for itself, with the same result.
class OptimizerShards {
 public:
  /// Collective; all ranks pass the same parameters, with the same values. Null, with nothing done, where
  /// there is an obstacle on some rank, or the ranks of this node share no memory. The communicator outlives
  /// this.
  static std::unique_ptr<OptimizerShards> divide(const std::vector<NamedTensor>& parameters,
                                                 Communicator& communicator, World& world);

  /// What keeps the parameters from being moved on this rank, to be read by a user; empty where nothing does.
  static std::string obstacle(const std::vector<NamedTensor>& parameters);

  /// What this rank updates of each parameter.
  std::span<const ElementRange> mine() const;

  /// After the optimizer's step: every rank gets the whole parameters. Collective over the node.
  void all_gather();

 private:
  OptimizerShards(ShardPlan plan, std::unique_ptr<NodeReplicas> replicas,
                  const std::vector<NamedTensor>& parameters);

  ShardPlan plan_;
  std::unique_ptr<NodeReplicas> replicas_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace cxtrain
