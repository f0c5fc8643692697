#pragma once

#include <vector>

#include "cxtrain/checkpoint/checkpoint_reader.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// What this rank goes on with where a checkpoint was written by another number of ranks: all pieces of all
/// of them, of which it takes what it trains; rank 0's word for what all ranks knew alike; the sums of the
/// running epoch's metrics on rank 0; and random numbers that begin anew. The order of the samples is the
/// same, so is the loss but for rounding and what is random. Reads no tensors, and talks to no other rank.
StateDict reshard_state(CheckpointReader& checkpoint, const World& world);

/// Returns whether the pieces of a saved state cover these parts of the model's parameters. The state of one
/// rank lacks parts if as many ranks divide the parameters in another way.
bool covers(const StateDict& state, const std::vector<Piece>& parameters);

/// Adds to a state what the other ranks of the training that wrote the checkpoint have saved of the same
/// tensors. Reads no tensors, and talks to no other rank.
void add_pieces_of_other_ranks(StateDict& state, CheckpointReader& checkpoint, const World& world);

}  // namespace cxtrain
