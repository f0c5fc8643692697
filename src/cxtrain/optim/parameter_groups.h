#pragma once

#include <span>
#include <string>
#include <vector>

#include "cxtrain/optim/setup.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// A group as an optimizer works on it: hyperparameters settled, every parameter in exactly one.
struct ResolvedGroup {
  std::vector<std::size_t>
      pieces;  ///< of the optimizer's; none where other ranks have the group's parameters
  double lr;
  double weight_decay;
};

/// See make_optimizer for the first three. `lr` and `weight_decay` are the defaults of groups that name none.
std::vector<ResolvedGroup> resolve_groups(const std::vector<ParameterGroup>& groups,
                                          const std::vector<NamedTensor>& parameters,
                                          std::span<const Piece> pieces, double lr, double weight_decay);

}  // namespace cxtrain
