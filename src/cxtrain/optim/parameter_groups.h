#pragma once

#include <vector>

#include "cxtrain/optim/setup.h"
#include "cxtrain/reduce/named_tensor.h"

namespace cxtrain {

/// A group as an optimizer works on it: hyperparameters settled, every parameter in exactly one.
struct ResolvedGroup {
  std::vector<NamedTensor> parameters;
  double lr;
  double weight_decay;
};

/// See make_optimizer. `lr` and `weight_decay` are the defaults of groups that name none.
std::vector<ResolvedGroup> resolve_groups(const std::vector<ParameterGroup>& groups,
                                          const std::vector<NamedTensor>& parameters, double lr,
                                          double weight_decay);

}  // namespace cxtrain
