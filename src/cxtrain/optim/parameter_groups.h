#pragma once

#include <span>
#include <string>
#include <vector>

#include "cxtrain/optim/setup.h"
#include "cxtrain/reduce/named_tensor.h"
#include "cxtrain/reduce/shard_plan.h"

namespace cxtrain {

/// A group as an optimizer works on it: hyperparameters settled, every parameter in exactly one.
struct ResolvedGroup {
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    ElementRange shard;  ///< of it, to be updated here; perhaps empty
  };
  std::vector<Parameter> parameters;
  double lr;
  double weight_decay;
};

/// Groups that name the tensors of `from` name those of `to` with the same names instead; others are left. A
/// user groups the model's parameters, while the optimizer may work on copies of them.
std::vector<ParameterGroup> translate_groups(std::vector<ParameterGroup> groups,
                                             const std::vector<NamedTensor>& from,
                                             const std::vector<NamedTensor>& to);

/// See make_optimizer for the first three. `lr` and `weight_decay` are the defaults of groups that name none.
std::vector<ResolvedGroup> resolve_groups(const std::vector<ParameterGroup>& groups,
                                          const std::vector<NamedTensor>& parameters,
                                          std::span<const ElementRange> shards, double lr,
                                          double weight_decay);

}  // namespace cxtrain
