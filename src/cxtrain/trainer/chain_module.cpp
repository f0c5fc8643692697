#include "cxtrain/trainer/chain_module.h"

#include "cxtrain/strategy/block_pass.h"

namespace cxtrain {

Carry ChainModule::run_blocks(const Batch& batch) {
  if (runner_ != nullptr) return runner_->run(batch);
  require_blocks("run_blocks()");
  Carry carry = inputs(batch);
  Blocks& blocks = *trainable(*this).blocks();
  for (std::size_t block = 0; block < blocks.size(); ++block)
    carry = cxtrain::run_block(blocks, block, carry);
  if (device_count() == 1) return carry;
  for (at::Tensor& output : carry.tensors) {
    if (output.defined()) output = to_part(output, 0);
  }
  return carry;
}

}  // namespace cxtrain
