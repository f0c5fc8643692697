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
class ShardedGradients final : public GradientExchange {
 public:
  /// All references and pointers of `inputs` outlive the object. Collective.
  ShardedGradients(const std::vector<NamedTensor>& parameters, const ShardedGradientsInputs& inputs)
      : walk_(inputs.walk),
        shards_(parameters, inputs.rows, inputs.group.rank(), inputs.all, inputs.world, inputs.options),
        whole_(outside(inputs.rows, parameters), inputs.all, inputs.world,
               {.find_unused_parameters = inputs.options.find_unused_parameters}, inputs.buffers) {}

  void zero_gradients() override {
    shards_.zero_gradients();
    whole_.zero_gradients();
  }
  void begin_backward(bool completes_step) override {
    if (walk_ != nullptr) walk_->end_forward();
    whole_.begin_backward(completes_step);
    shards_.begin_backward(completes_step);
    if (walk_ != nullptr) walk_->begin_backward(shards_);
  }
  void end_backward() override {
    if (walk_ != nullptr) walk_->end_backward();
    shards_.end_backward();
    whole_.end_backward();
  }
  void complete() override {
    shards_.finish();
    whole_.complete();
  }
  void bring_buffers() override { whole_.bring_buffers(); }
  /// Not with gathered blocks, which also travel in forward and backward.
  std::optional<Rehearsal> rehearse(RehearsedMessages messages) override {
    if (walk_ != nullptr || messages != RehearsedMessages::of_steps) return std::nullopt;
    return shards_.rehearse();
  }
  std::vector<ConnectionUse> connections() const override { return whole_.connections(); }
  const GradientShard* shard_of(const at::Tensor& parameter) const override {
    return shards_.shard_of(parameter);
  }
  std::string order() const override { return whole_.order(); }
  void set_order(const std::string& lines) override { whole_.set_order(lines); }

 private:
  /// The parameters that are in no row.
  static std::vector<NamedTensor> outside(const std::vector<DividedRow>& rows,
                                          const std::vector<NamedTensor>& parameters) {
    std::vector<bool> inside(parameters.size());
    for (const DividedRow& row : rows) {
      for (const std::size_t parameter : row.parameters) inside[parameter] = true;
    }
    std::vector<NamedTensor> found;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!inside[i]) found.push_back(parameters[i]);
    }
    return found;
  }

  BlockWalk* const walk_;
  ShardReducer shards_;
  ReducedGradients whole_;
};

}  // namespace cxtrain
