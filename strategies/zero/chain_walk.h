#pragma once

#include <cstddef>

#include "cxtrain/reduce/shard_reducer.h"
#include "cxtrain/strategy/block_pass.h"
#include "cxtrain/strategy/chain.h"
#include "gathered_model.h"

namespace cxtrain {

/// Brings batches through a chain whose parameters are gathered block by block, and reduces the gradients of
/// a block when backward has left the block. Every rank gathers the same blocks in the same order: a rank
/// that has no sample, or whose model skips a batch or a block, goes through the blocks without work.
///
/// For each batch: `begin_forward`, the model's step, which may call `run` once, then `end_forward`; and for
/// a training step `begin_backward`, backward of the loss, if there is one, and `end_backward`.
class ChainWalk final : public ChainRunner, private BlockObserver {
 public:
  /// Both references outlive the object, which lends itself to the chain from `begin_forward` to
  /// `end_forward`.
  ChainWalk(Chain& chain, GatheredModel& model) : chain_(chain), model_(model) {}
  ~ChainWalk() override { chain_.lend(nullptr); }
  ChainWalk(const ChainWalk&) = delete;
  ChainWalk& operator=(const ChainWalk&) = delete;

  /// `trains`: a backward pass follows.
  void begin_forward(bool trains);
  /// Goes through the blocks that no pass of this rank has reached. Collective, as all passes are.
  void end_forward();
  /// `gradients`: those of this backward.
  void begin_backward(ShardReducer& gradients);
  void end_backward();

  /// Throws TrainingError if the model runs the chain twice in a step, or if the inputs of the chain require
  /// a gradient.
  Carry run(const Batch& batch) override;

 private:
  void before_forward(std::size_t block) override;
  void after_forward(std::size_t block) override;
  void before_backward(std::size_t block) override;
  void after_backward(std::size_t block) override;
  /// Goes backward through the blocks from the last one to `block`, as far as no pass has.
  void walk_back_to(std::size_t block);

  Chain& chain_;
  GatheredModel& model_;
  ShardReducer* gradients_ = nullptr;
  bool trains_ = false;
  std::size_t forward_ = 0;   ///< the first block that the forward pass has not reached
  std::size_t backward_ = 0;  ///< the last block that backward has reached; `size()` of the chain: none
  std::size_t first_trained_ = 0;
};

}  // namespace cxtrain
