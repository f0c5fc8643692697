#pragma once

#include <cstdint>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// The elements of a parameter that belong to one rank.
struct Part {
  NamedTensor parameter;
  ElementRange range;
};

/// Returns the parts of rank `rank` of `ranks` ranks, in the order of the rows (`divided_rows`). Parameters
/// that cannot be divided have no part. Pure.
std::vector<Part> parts_of_rank(const std::vector<NamedTensor>& parameters, int ranks, int rank,
                                std::int64_t row_bytes);

/// Returns this rank's parts of hollow parameters by the current rows. `kept`: the parts that the rank has. A
/// parameter changes its row when it is frozen or trained again. If a rank then lacks elements, the ranks of
/// the group divide all parameters again. A rank has one whole parameter at a time. Collective over the
/// world.
std::vector<Piece> parts_of_rows(const std::vector<NamedTensor>& parameters, std::vector<Piece> kept,
                                 Communicator& group, World& world, std::int64_t row_bytes);

}  // namespace cxtrain
