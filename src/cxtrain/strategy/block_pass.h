#pragma once

#include <cstddef>

#include "cxtrain/strategy/blocks.h"

namespace cxtrain {

/// Runs the forward pass of a block. Its backward pass is one function of autograd's graph, which gives the
/// gradients of the block's inputs and parameters, if there is an observer (`Blocks::observer`) or the blocks
/// are recomputed (`Blocks::recomputes`). Recomputed blocks keep no activations: backward runs the
/// forward pass again, with the same random numbers and autocast, and without a second change of the block's
/// buffers. Gradients have the bits that they have without an observer and without recomputation.
///
/// The observer outlives the backward pass. Throws TrainingError in backward if a tensor of `carry` was
/// changed in place, or if autograd is to keep the graph of the backward pass (second derivatives).
Carry run_block(Blocks& blocks, std::size_t block, const Carry& carry);

}  // namespace cxtrain
