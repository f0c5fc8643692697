#pragma once

#include <cstddef>

#include "cxtrain/strategy/chain.h"

namespace cxtrain {

/// Receives a call before and after each pass of a block, on the thread that runs the pass. Backward passes
/// run on autograd's threads, while the caller of `backward` waits.
class BlockObserver {
 public:
  virtual ~BlockObserver() = default;
  virtual void before_forward(std::size_t block) = 0;
  virtual void after_forward(std::size_t block) = 0;
  virtual void before_backward(std::size_t block) = 0;
  virtual void after_backward(std::size_t block) = 0;
};

/// Runs the forward pass of a block. Its backward pass is one function of autograd's graph, which gives the
/// gradients of the block's inputs and parameters, if there is an observer or the chain recomputes
/// (`Chain::recomputes`). A chain that recomputes keeps no activations of the block: backward runs the
/// forward pass again, with the same random numbers and autocast, and without a second change of the block's
/// buffers. Gradients have the bits that they have without an observer and without recomputation.
///
/// The observer outlives the backward pass. Throws TrainingError in backward if a tensor of `carry` was
/// changed in place, or if autograd is to keep the graph of the backward pass (second derivatives).
Carry run_block(Chain& chain, std::size_t block, const Carry& carry, BlockObserver* observer = nullptr);

}  // namespace cxtrain
