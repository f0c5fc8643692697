#pragma once

#include "cxtrain/strategy/chain.h"
#include "cxtrain/trainer/block_module.h"

namespace cxtrain {

/// A Module whose forward pass is a chain of blocks. Every strategy trains it; `pipeline` needs it, and puts
/// consecutive blocks on different ranks.
///
///     class Net : public cxtrain::ChainModule {
///      public:
///       Net() {
///         add_block("embed", Embed(256));
///         for (int i = 0; i < 8; ++i) add_block("blocks." + std::to_string(i), Block(256));
///         add_block("head", Head(256));
///       }
///       cxtrain::StepOutput training_step(const cxtrain::Batch& batch, std::int64_t) override {
///         return torch::cross_entropy_loss(run_blocks(batch).tensor(), batch[1]);
///       }
///     };
///
/// Under `pipeline` the step methods run on the ranks with the last block. Elsewhere the blocks run without
/// them: only blocks use parameters, and `inputs` alone reads what the first block needs.
class ChainModule : public BlockModule, private Chain {
 protected:
  /// Returns what the first block gets of a batch; by default its first tensor.
  virtual Carry inputs(const Batch& batch) { return Carry(batch[0]); }

  /// Brings a batch through the blocks, and returns the outputs of the last block, on the rank's first
  /// device. A step calls it once. Throws TrainingError outside of steps if other ranks have some of the
  /// blocks.
  Carry run_blocks(const Batch& batch);

 private:
  Chain* chain() final { return this; }
  Carry first_carry(const Batch& batch) final { return inputs(batch); }
  void lend(ChainRunner* runner) final { runner_ = runner; }

  ChainRunner* runner_ = nullptr;
};

}  // namespace cxtrain
