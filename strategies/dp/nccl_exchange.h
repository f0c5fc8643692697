#pragma once

#include "nccl_peers.h"
#include "replica_exchange.h"

namespace cxtrain {

/// Replicas on a GPU each: parameters and buffers are broadcast from the primary's GPU, gradients reduced to
/// it, all of a model in one NCCL group, on each device's current stream, where the work before and after it
/// is as well.
class NcclExchange final : public ReplicaExchange {
 public:
  NcclExchange(std::vector<Replica>& replicas, double timeout_seconds);

  std::string description() const override;
  /// Frozen parameters travel the first time only.
  void send_parameters() override;
  void send_buffers(std::size_t count) override;
  void sum_gradients() override;

 private:
  /// `tensors[r]`: replica r's, the same list for each.
  void broadcast(const std::vector<std::vector<at::Tensor>>& tensors);

  std::vector<Replica>& replicas_;
  NcclPeers group_;
  bool sent_frozen_ = false;
};

}  // namespace cxtrain
