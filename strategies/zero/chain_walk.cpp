#include "chain_walk.h"

#include <algorithm>

#include "cxtrain/base/error.h"

namespace cxtrain {

void ChainWalk::begin_forward(bool trains) {
  chain_.lend(this);
  trains_ = trains;
  forward_ = 0;
}

Carry ChainWalk::run(const Batch& batch) {
  if (forward_ > 0)
    throw TrainingError(
        "a step calls run() twice; with parameters in shards the other ranks gather blocks for one call");
  Carry carry = chain_.inputs(batch);
  for (const at::Tensor& tensor : carry.tensors) {
    if (tensor.requires_grad())
      throw TrainingError(
          "the inputs of the chain require a gradient, and with parameters in shards backward ends at the "
          "first block that is trained; use --strategy.stage 2");
  }
  for (std::size_t block = 0; block < chain_.size(); ++block) carry = run_block(chain_, block, carry, this);
  return carry;
}

void ChainWalk::before_forward(std::size_t block) {
  model_.acquire(block);
  forward_ = block + 1;
  if (block + 1 < chain_.size()) {
    model_.request(block + 1);
  } else if (trains_) {
    model_.request(block);  // backward begins with the block
  }
}

void ChainWalk::after_forward(std::size_t block) { model_.release(block); }

void ChainWalk::end_forward() {
  for (std::size_t block = forward_; block < chain_.size(); ++block) {
    before_forward(block);
    after_forward(block);
  }
  chain_.lend(nullptr);
}

void ChainWalk::begin_backward(ShardReducer& gradients) {
  gradients_ = &gradients;
  backward_ = chain_.size();
  // Backward begins with the last block on a rank that trains nothing, too: it is in memory.
  first_trained_ = std::min(model_.first_trained_block(), chain_.size() - 1);
}

void ChainWalk::walk_back_to(std::size_t block) {
  while (backward_ > block) {
    before_backward(backward_ - 1);
    after_backward(backward_);
  }
}

void ChainWalk::before_backward(std::size_t block) {
  walk_back_to(block + 1);
  if (block + 1 < chain_.size()) gradients_->send_rows(model_.rows_from(block + 1));
  backward_ = block;
  model_.acquire(block);
  if (block > first_trained_) model_.request(block - 1);
}

void ChainWalk::after_backward(std::size_t block) { model_.release(block); }

void ChainWalk::end_backward() { walk_back_to(first_trained_); }

}  // namespace cxtrain
