#pragma once

#include "cxtrain/checkpoint/checkpoint_reader.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// What this rank goes on with where a checkpoint was written by another number of ranks: all pieces of all
/// of them, of which it takes what it trains; rank 0's word for what all ranks knew alike; the sums of the
/// running epoch's metrics on rank 0; and random numbers that begin anew. The order of the samples is the
/// same, so is the loss but for rounding and what is random. Reads all the state on every rank; talks to no
/// other.
StateDict reshard_state(CheckpointReader& checkpoint, const World& world);

}  // namespace cxtrain
