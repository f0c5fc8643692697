#pragma once

#include <vector>

#include "arguments.h"
#include "cxtrain/strategy/block_ranges.h"
#include "cxtrain/strategy/blocks.h"
#include "cxtrain/strategy/trainable.h"

namespace cxtrain {

/// Parts of the model on each rank.
inline int chunks_of(const PipelineArgs& args) {
  return args.schedule == Schedule::interleaved ? static_cast<int>(args.chunks) : 1;
}

/// Returns the blocks of a model that is a chain. Throws ConfigError if it is none.
Blocks& blocks_of_chain(Trainable& module);

/// Cuts the chain into the parts of all stages, by the user's layout or by cost. Throws ConfigError if the
/// chain cannot be cut in this way.
std::vector<BlockRange> parts_of_chain(const Blocks& chain, const PipelineArgs& args, int stages);

}  // namespace cxtrain
