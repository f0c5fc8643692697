#include "block_walk.h"

#include <algorithm>

#include "cxtrain/base/error.h"

namespace cxtrain {

void BlockWalk::begin_forward() {
  blocks_.set_observer(this);
  model_.begin_pass();
  forward_ = 0;
}

void BlockWalk::before_forward(std::size_t block) {
  if (block < forward_)
    throw TrainingError("a step runs the block `" + blocks_.name_of(block) +
                        "` twice, or after a block that add_block got later; where blocks are gathered, all "
                        "ranks run them once, in the order of add_block");
  walk_to(block);
  enter_forward(block);
}

void BlockWalk::walk_to(std::size_t block) {
  while (forward_ < block) {
    enter_forward(forward_);
    model_.release(forward_ - 1);
  }
}

void BlockWalk::enter_forward(std::size_t block) {
  model_.acquire(block);
  forward_ = block + 1;
  if (forward_ < blocks_.size()) model_.request(forward_);
}

void BlockWalk::begin_backward(ShardReducer& gradients) {
  gradients_ = &gradients;
  backward_ = blocks_.size();
  // Backward begins with the last block on a rank that trains nothing, too: it is in memory.
  first_trained_ = std::min(model_.first_trained_block(), blocks_.size() - 1);
}

void BlockWalk::before_backward(std::size_t block) {
  if (block < first_trained_)
    throw TrainingError("an input of the block `" + blocks_.name_of(block) +
                        "` requires a gradient, and where blocks are gathered, backward ends at the first "
                        "block that is trained; use --strategy.stage 2");
  walk_back_to(block + 1);
  enter_backward(block);
}

void BlockWalk::walk_back_to(std::size_t block) {
  while (backward_ > block) {
    enter_backward(backward_ - 1);
    model_.release(backward_);
  }
}

void BlockWalk::enter_backward(std::size_t block) {
  backward_ = block;
  model_.acquire(block);  // waits for every message under way, so the gradients leave after it
  if (block + 1 < blocks_.size()) gradients_->send_rows(model_.rows_from(block + 1));
  if (block > first_trained_) model_.request(block - 1);
}

}  // namespace cxtrain
