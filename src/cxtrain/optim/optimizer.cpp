#include "cxtrain/optim/optimizer.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/optim/fused.h"
#include "cxtrain/optim/libtorch_adapter.h"
#include "cxtrain/optim/setup_arguments.h"

namespace cxtrain {
namespace {

/// The group of each parameter, by name; the last one's number is that of the groups.
std::map<std::string_view, std::size_t> groups_by_name(const std::vector<ParameterGroup>& groups,
                                                       const std::vector<NamedTensor>& parameters) {
  std::map<const at::TensorImpl*, std::string_view> names;
  for (const auto& [name, tensor] : parameters) names[tensor.unsafeGetTensorImpl()] = name;
  std::map<std::string_view, std::size_t> result;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const at::Tensor& tensor : groups[g].parameters) {
      const auto found = names.find(tensor.unsafeGetTensorImpl());
      if (found == names.end() || !result.try_emplace(found->second, g).second) {
        throw ConfigError("optimizer",
                          "parameter group " + std::to_string(g) +
                              " has a tensor that is not a parameter of the model, or is in two groups",
                          "", MessageCode::bad_model);
      }
    }
  }
  for (const auto& [name, tensor] : parameters) result.try_emplace(name, groups.size());
  return result;
}

/// Throws ConfigError if a group has a weight decay. Called for optimizers whose weight decay cannot be set:
/// L-BFGS has none, and a user's optimizer sets its own.
void refuse_weight_decay(const std::vector<ParameterGroup>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].weight_decay)
      throw ConfigError("optimizer",
                        "parameter group " + std::to_string(g) +
                            " has a weight_decay, and this optimizer takes none from a group",
                        "leave it out, or use another optimizer", MessageCode::bad_model);
  }
}

}  // namespace

std::vector<ResolvedGroup> resolve_groups(const std::vector<ParameterGroup>& groups,
                                          const std::vector<NamedTensor>& parameters,
                                          std::span<const Piece> pieces, double lr, double weight_decay) {
  if (std::ranges::none_of(parameters,
                           [](const NamedTensor& parameter) { return parameter.tensor.requires_grad(); })) {
    throw ConfigError("model", "has no parameter that requires a gradient", "", MessageCode::bad_model);
  }
  std::vector<ResolvedGroup> all;
  for (const ParameterGroup& group : groups) {
    all.push_back({{}, group.lr.value_or(lr), group.weight_decay.value_or(weight_decay)});
  }
  all.push_back({{}, lr, weight_decay});
  const auto group_of = groups_by_name(groups, parameters);
  for (std::size_t i = 0; i < pieces.size(); ++i) all[group_of.at(pieces[i].name)].pieces.push_back(i);

  std::vector<ResolvedGroup> used;
  for (std::size_t g = 0; g < all.size(); ++g) {
    if (std::ranges::any_of(group_of, [g](const auto& entry) { return entry.second == g; }))
      used.push_back(std::move(all[g]));
  }
  return used;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSetup& setup,
                                          const std::vector<NamedTensor>& parameters,
                                          std::span<const Piece> pieces) {
  if (std::vector<Problem> problems = check_setup(setup); !problems.empty())
    throw ConfigError(std::move(problems));
  return std::visit(
      [&](const auto& config) -> std::unique_ptr<Optimizer> {
        constexpr bool kHasDecay = requires { config.weight_decay; };
        double decay = 0;
        if constexpr (kHasDecay) {
          decay = config.weight_decay;
        } else {
          refuse_weight_decay(setup.groups);
        }
        const std::vector<ResolvedGroup> groups =
            resolve_groups(setup.groups, parameters, pieces, config.lr, decay);
        if constexpr (requires { libtorch_optimizer(config); }) {
          return make_libtorch_optimizer(libtorch_optimizer(config), groups, pieces, kHasDecay);
        } else {
          return std::make_unique<FusedOptimizer>(config, groups, pieces);
        }
      },
      setup.optimizer);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSetup& setup,
                                          const std::vector<NamedTensor>& parameters) {
  return make_optimizer(setup, parameters, whole_pieces(parameters));
}

}  // namespace cxtrain
