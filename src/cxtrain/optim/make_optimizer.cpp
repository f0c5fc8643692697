#include <type_traits>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/optim/fused.h"
#include "cxtrain/optim/libtorch_adapter.h"
#include "cxtrain/optim/optimizer.h"
#include "cxtrain/optim/parameter_groups.h"
#include "cxtrain/optim/setup_arguments.h"

namespace cxtrain {

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSetup& setup,
                                          const std::vector<NamedTensor>& parameters,
                                          std::span<const Piece> pieces) {
  if (std::vector<Problem> problems = check_setup(setup); !problems.empty())
    throw ConfigError(std::move(problems));
  return std::visit(
      [&](const auto& config) -> std::unique_ptr<Optimizer> {
        using Config = std::decay_t<decltype(config)>;
        if constexpr (std::is_same_v<Config, LibTorchOptimizer>) {
          return make_libtorch_optimizer(
              config, resolve_groups(setup.groups, parameters, pieces, config.lr, 0), pieces);
        } else {
          return std::make_unique<FusedOptimizer>(
              config, resolve_groups(setup.groups, parameters, pieces, config.lr, config.weight_decay),
              pieces);
        }
      },
      setup.optimizer);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSetup& setup,
                                          const std::vector<NamedTensor>& parameters) {
  return make_optimizer(setup, parameters, whole_pieces(parameters));
}

}  // namespace cxtrain
