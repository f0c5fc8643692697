#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/reduce/divided_rows.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// A row of parameters, and the memory that this rank has of the row.
struct PlacedRow {
  DividedRow row;
  at::Tensor share;                          ///< the shard that this rank updates
  at::Tensor memory = {};                    ///< of all parameters; undefined: the rank has its shard only
  std::shared_ptr<NodeArena> one_copy = {};  ///< of `memory`; null: every rank has memory of its own

  /// Returns the part of the row's k-th parameter that rank `rank`, which is this rank, updates.
  Piece part(std::size_t k, const NamedTensor& parameter, int rank) const;
};

/// Moves the parameters that can be divided into memory of the group's communicator, row after row
/// (`divided_rows(parameters, group.size(), row_bytes)`). Where the ranks of the group share a node, they
/// have one copy of each row (`NodeArena`). The memory lives as long as the parameters. All ranks of the
/// group pass equal parameters. Collective over the group.
std::vector<PlacedRow> place_rows(const std::vector<NamedTensor>& parameters, Communicator& group,
                                  std::int64_t row_bytes);

}  // namespace cxtrain
