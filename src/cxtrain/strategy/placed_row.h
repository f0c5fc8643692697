#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
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
  std::shared_ptr<NodeArena> one_copy = {};  ///< has `memory`; null: every rank has memory of its own

  /// Returns the part of the row's k-th parameter that rank `rank`, which is this rank, updates.
  Piece part(std::size_t k, const NamedTensor& parameter, int rank) const;
};

/// Returns the names of the parameters that this rank can divide; empty if the memory of one belongs to other
/// tensors, too.
std::vector<std::string> divisible(const std::vector<NamedTensor>& parameters);
/// Returns whether all ranks want to divide these parameters, and every rank can divide equal ones, at least
/// one. Collective.
bool agree_to_divide(bool wanted, const std::vector<NamedTensor>& parameters, World& world);

/// Returns memory for the rows of these parameters, with one copy for all ranks of the group. Null, on all
/// ranks, if the ranks cannot share memory. Collective over the group.
std::shared_ptr<NodeArena> one_copy_of(const std::vector<DividedRow>& rows,
                                       const std::vector<NamedTensor>& parameters, Communicator& group);

/// Moves the parameters that can be divided into memory of the group's communicator, row after row
/// (`divided_rows(parameters, group.size(), row_bytes)`). Where the ranks of the group share a node, they
/// have one copy of all rows (`NodeArena`). The memory lives as long as the parameters. All ranks of the
/// group pass equal parameters. `kept`: what this rank has of hollow parameters; enough only for ranks with
/// one copy, which fill their shards. Throws StateError if a value is missing. Collective over the
/// group.
std::vector<PlacedRow> place_rows(const std::vector<NamedTensor>& parameters, Communicator& group,
                                  std::int64_t row_bytes, std::span<const Piece> kept = {});

/// Fills a part of a parameter: from the parameter, or, if the parameter is hollow, from what is kept.
void fill_part(const Piece& part, const NamedTensor& parameter, std::span<const Piece> kept);

}  // namespace cxtrain
