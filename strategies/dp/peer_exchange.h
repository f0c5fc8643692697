#pragma once

#include <memory>

#include "cxtrain/accelerator/accelerator.h"
#include "flat_messages.h"
#include "replica_exchange.h"

namespace cxtrain {

/// Replicas on a device each: parameters and buffers are sent from the primary's device, gradients summed on
/// it, in few messages (`FlatMessages`), on each device's current stream, where the work before and after it
/// is as well.
class PeerExchange final : public ReplicaExchange {
 public:
  PeerExchange(std::vector<Replica>& replicas, std::unique_ptr<PeerCommunicator> peers)
      : replicas_(replicas), peers_(std::move(peers)) {}

  std::string description() const override;
  /// Frozen parameters travel the first time, and where the primary has written to them since.
  void send_parameters() override;
  void send_buffers(std::size_t count) override;
  void sum_gradients() override;

 private:
  std::vector<Replica>& replicas_;
  std::unique_ptr<PeerCommunicator> peers_;
  FlatMessages parameters_{*peers_}, buffers_{*peers_}, gradients_{*peers_};
  std::vector<std::int64_t> sent_versions_;  ///< of the primary's parameters; empty: nothing was sent
};

}  // namespace cxtrain
