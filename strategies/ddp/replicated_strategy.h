#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/reduce/sync_batch_norm.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/strategy/local_step.h"
#include "replicated_args.h"

namespace cxtrain {

/// A strategy whose ranks run the whole model, each on its own samples, and average their gradients. `ddp`
/// and `zero` differ in who keeps what of parameters, gradients and the optimizer's state.
class ReplicatedStrategy : public LocalStrategy {
 public:
  explicit ReplicatedStrategy(const ReplicatedArgs& args) : args_(args) {}

  void connect() override;
  DataShard data_shard() const override;
  void forward(const Batch& batch, std::int64_t batch_idx) override;
  at::Tensor all_gather(const at::Tensor& own, bool gradients) override;
  void agree_on_buffers() override { buffers_->broadcast(); }
  /// The order of the gradients in the buckets, what the exchange remembers, and the buffers where each rank
  /// has its own.
  void save(StateDict& state) const override;
  void load(const StateDict& state) override;
  bool differs_between_ranks() const override;
  std::string describe() const override { return communicator_->description(); }
  void teardown() override;

 protected:
  StepOutput training_step(const MicroStep& step) override;
  /// All ranks, from `connect` to `teardown`.
  Communicator& communicator() const { return *communicator_; }
  /// Brought to the ranks after each step; null if each rank has its own.
  TensorSync* buffers_of_steps() { return args_.broadcast_buffers ? &*buffers_ : nullptr; }
  /// Whether gradients may travel during backward, in one order on all ranks. Batch norms' statistics travel
  /// in backward, too: on several devices autograd has several threads, which would send both in any order,
  /// and a rank on which a parameter is unused sends the gradients of the parameter's bucket later.
  bool may_overlap() const {
    return !batch_norm_ || (context_->devices.size() == 1 && !args_.find_unused_parameters);
  }
  bool syncs_batch_norm() const { return batch_norm_.has_value(); }
  /// Whether every rank had the whole model when it connected.
  bool whole_at_start() const { return whole_at_start_; }
  /// Returns the ranks of this node, or all ranks if every rank is alone on its node. Collective at the first
  /// call.
  Communicator& ranks_of_node();

 private:
  bool has_own_buffers() const { return !args_.broadcast_buffers && context_->world.size() > 1; }

  const ReplicatedArgs args_;
  bool whole_at_start_ = true;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Communicator> node_;  ///< `ranks_of_node`; null before its first call
  std::optional<TensorSync> buffers_;
  std::optional<SyncBatchNorm> batch_norm_;
};

}  // namespace cxtrain
