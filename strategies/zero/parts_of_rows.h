#pragma once

#include <cstdint>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Returns this rank's parts of hollow parameters by the rows of now (`divided_rows`). `kept`: the parts that
/// the rank has. A parameter lies in another row once it is frozen or trained again: the ranks of the group
/// then divide all parameters anew, one after the other. Collective over the world.
std::vector<Piece> parts_of_rows(const std::vector<NamedTensor>& parameters, std::vector<Piece> kept,
                                 Communicator& group, World& world, std::int64_t row_bytes);

}  // namespace cxtrain
