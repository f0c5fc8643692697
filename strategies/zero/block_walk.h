#pragma once

#include <cstddef>

#include "cxtrain/reduce/shard_reducer.h"
#include "cxtrain/strategy/blocks.h"
#include "gathered_model.h"

namespace cxtrain {

/// Gathers the parameters of a block for each pass of the block, and reduces the gradients of a block when
/// backward has left the block. Every rank gathers the same blocks in the same order: a rank that has no
/// sample, or whose model skips a batch or a block, goes through the blocks without work.
///
/// For each batch: `begin_forward`, the model's step, then `end_forward`; and for a training step
/// `begin_backward`, backward of the loss, if there is one, and `end_backward`.
class BlockWalk final : private BlockObserver {
 public:
  /// Both references outlive the object, which observes the blocks from `begin_forward` to `end_forward`.
  BlockWalk(Blocks& blocks, GatheredModel& model) : blocks_(blocks), model_(model) {}
  ~BlockWalk() override { blocks_.set_observer(nullptr); }
  BlockWalk(const BlockWalk&) = delete;
  BlockWalk& operator=(const BlockWalk&) = delete;

  void begin_forward();
  /// Goes through the blocks that no pass of this rank has reached. Collective, as all passes are.
  void end_forward() {
    walk_to(blocks_.size());
    blocks_.set_observer(nullptr);
  }
  /// `gradients`: those of this backward.
  void begin_backward(ShardReducer& gradients);
  void end_backward() { walk_back_to(first_trained_); }

 private:
  /// Throws TrainingError if the step has run the block, or a block behind it.
  void before_forward(std::size_t block) override;
  void after_forward(std::size_t block) override { model_.release(block); }
  /// Throws TrainingError if no parameter of the block, or of a block before it, is trained.
  void before_backward(std::size_t block) override;
  void after_backward(std::size_t block) override { model_.release(block); }
  /// Goes forward through the blocks before `block`, as far as no pass has.
  void walk_to(std::size_t block);
  /// Goes backward through the blocks from the last one to `block`, as far as no pass has.
  void walk_back_to(std::size_t block);
  void enter_forward(std::size_t block);
  void enter_backward(std::size_t block);

  Blocks& blocks_;
  GatheredModel& model_;
  ShardReducer* gradients_ = nullptr;
  std::size_t forward_ = 0;   ///< the first block that the forward pass has not reached
  std::size_t backward_ = 0;  ///< the last block that backward has reached; `size()` of the blocks: none
  std::size_t first_trained_ = 0;
};

}  // namespace cxtrain
