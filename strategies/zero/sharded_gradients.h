#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../ddp/reduced_gradients.h"
#include "block_walk.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/reduce/divided_rows.h"
#include "cxtrain/reduce/shard_reducer.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

struct ShardedGradientsInputs {
  Communicator& all;    ///< the ranks that average their gradients
  Communicator& group;  ///< the ranks that divide them: all, or those of a node
  World& world;
  std::vector<DividedRow> rows;  ///< rows of the parameters, with a shard for each rank of `group`
  ShardReducerOptions options;
  TensorSync* buffers;  ///< brought to the ranks after each step; or null
  BlockWalk* walk;      ///< of a model whose blocks are gathered; or null
};

/// Averages gradients, and leaves each rank its shard. A parameter that cannot be divided has its whole
/// gradient on every rank; whole gradients travel after backward.
class ShardedGradients final : public OrderedExchange {
 public:
  /// All references and pointers of `inputs` outlive the object. Collective.
  ShardedGradients(const std::vector<NamedTensor>& parameters, const ShardedGradientsInputs& inputs);

  void zero_gradients() override;
  void begin_backward(bool completes_step) override;
  void end_backward() override;
  void complete() override;
  void bring_buffers() override { whole_.bring_buffers(); }
  std::optional<Rehearsal> rehearse(RehearsedMessages messages) override;
  std::vector<ConnectionUse> connections() const override { return whole_.connections(); }
  const GradientShard* shard_of(const at::Tensor& parameter) const override {
    return shards_.shard_of(parameter);
  }
  std::string order() const override { return whole_.order(); }
  void set_order(const std::string& lines) override { whole_.set_order(lines); }

 private:
  BlockWalk* const walk_;
  ShardReducer shards_;
  ReducedGradients whole_;
};

}  // namespace cxtrain
