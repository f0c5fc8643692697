#include "cxtrain/optim/parameter_groups.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "cxtrain/base/error.h"

namespace cxtrain {

std::vector<ParameterGroup> translate_groups(std::vector<ParameterGroup> groups,
                                             const std::vector<NamedTensor>& from,
                                             const std::vector<NamedTensor>& to) {
  std::map<std::string_view, const at::Tensor*> by_name;
  for (const NamedTensor& named : to) by_name[named.name] = &named.tensor;
  std::map<const at::TensorImpl*, const at::Tensor*> counterpart;
  for (const NamedTensor& named : from) {
    if (const auto found = by_name.find(named.name); found != by_name.end()) {
      counterpart[named.tensor.unsafeGetTensorImpl()] = found->second;
    }
  }
  for (ParameterGroup& group : groups) {
    for (at::Tensor& tensor : group.parameters) {
      const auto found = counterpart.find(tensor.unsafeGetTensorImpl());
      if (found != counterpart.end()) tensor = *found->second;
    }
  }
  return groups;
}

std::vector<ResolvedGroup> resolve_groups(const std::vector<ParameterGroup>& groups,
                                          const std::vector<NamedTensor>& parameters,
                                          std::span<const ElementRange> shards, double lr,
                                          double weight_decay) {
  std::map<const at::TensorImpl*, std::size_t> free;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    free[parameters[i].tensor.unsafeGetTensorImpl()] = i;
  }
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const NamedTensor& parameter) { return parameter.tensor.requires_grad(); })) {
    throw ConfigError("model", "has no parameter that requires a gradient");
  }
  const auto entry = [&](std::size_t i) {
    const auto& [name, tensor] = parameters[i];
    return ResolvedGroup::Parameter{name, tensor,
                                    shards.empty() ? ElementRange{0, tensor.numel()} : shards[i]};
  };
  std::vector<ResolvedGroup> resolved;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    ResolvedGroup group{{}, groups[g].lr.value_or(lr), groups[g].weight_decay.value_or(weight_decay)};
    for (const at::Tensor& tensor : groups[g].parameters) {
      const auto found = free.find(tensor.unsafeGetTensorImpl());
      if (found == free.end()) {
        throw ConfigError("optimizer",
                          "parameter group " + std::to_string(g) +
                              " has a tensor that is no parameter of the model, or is in two groups");
      }
      group.parameters.push_back(entry(found->second));
      free.erase(found);
    }
    if (!group.parameters.empty()) resolved.push_back(std::move(group));
  }
  ResolvedGroup rest{{}, lr, weight_decay};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (free.contains(parameters[i].tensor.unsafeGetTensorImpl())) rest.parameters.push_back(entry(i));
  }
  if (!rest.parameters.empty()) resolved.push_back(std::move(rest));
  return resolved;
}

}  // namespace cxtrain
