#include "ddp_strategy.h"

#include <algorithm>
#include <utility>

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/strategy/divided_parameters.h"
#include "cxtrain/strategy/model_outline.h"
#include "reduced_gradients.h"
#include "replicated_strategy.h"

namespace cxtrain {
namespace {

/// Whether dividing the update saves more than fetching the other ranks' shards costs, within a node: where
/// the optimizer keeps state, and the model is large enough that one more meeting of the ranks does not
/// count. An update by Adam touches an element seven times, by SGD with momentum five, without three; the
/// exchange touches it twice, once of these in another core's cache (benchmarks/RESULTS.md).
bool division_pays(const OptimizerConfig& optimizer, const std::vector<NamedTensor>& parameters) {
  constexpr std::size_t kSmallest = std::size_t{256} << 10;
  const auto* sgd = std::get_if<Sgd>(&optimizer);
  if (sgd != nullptr && sgd->momentum == 0) return false;
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : parameters) bytes += tensor.nbytes();
  return bytes >= kSmallest;
}

/// The bytes of a bucket: at most those of a message between the ranks, unless the user gave others.
std::int64_t bucket_bytes(std::int64_t bytes, std::int64_t by_default, std::int64_t message) {
  return bytes == by_default ? std::min(bytes, message) : bytes;
}

std::optional<at::ScalarType> wire_dtype(CommHook hook) {
  if (hook == CommHook::none) return std::nullopt;
  return hook == CommHook::bf16 ? at::kBFloat16 : at::kHalf;
}

class DdpStrategy final : public ReplicatedStrategy {
 public:
  explicit DdpStrategy(const DdpArgs& args)
      : ReplicatedStrategy({.find_unused_parameters = args.find_unused_parameters,
                            .broadcast_buffers = args.broadcast_buffers,
                            .network = args.network}),
        args_(args) {}

 private:
  std::unique_ptr<OrderedExchange> make_ordered_exchange(std::span<const OptimizerTarget> targets) override {
    if (args_.comm_hook != CommHook::none && communicator().node_memory() != nullptr &&
        context_->world.facts().num_nodes == 1)
      log_info("strategy.comm_hook: gradients are not rounded, because they do not leave the node");
    const DdpArgs defaults;
    const std::int64_t message = communicator().message_bytes();
    return std::make_unique<ReducedGradients>(
        parameters_of(targets), communicator(), context_->world,
        ReducerOptions{.first_bucket_bytes =
                           bucket_bytes(args_.first_bucket_bytes, defaults.first_bucket_bytes, message),
                       .bucket_bytes = bucket_bytes(args_.bucket_bytes, defaults.bucket_bytes, message),
                       .overlap = may_overlap() && args_.overlap.value_or(communicator().overlaps()),
                       .find_unused_parameters = args_.find_unused_parameters,
                       .wire_dtype = wire_dtype(args_.comm_hook)},
        buffers_of_steps());
  }

  std::unique_ptr<TrainedParameters> make_trained(const OptimizerTarget& target,
                                                  GradientExchange& exchange) override {
    if (!divides(target)) return LocalStrategy::make_trained(target, exchange);
    Communicator& group = ranks_of_node();
    auto divided =
        std::make_unique<DividedParameters>(target.parameters, context_->precision, group, exchange,
                                            place_rows(target.parameters, group, /*row_bytes=*/0));
    log_info("optimizer: " + std::to_string(group.size()) + " ranks divide its work" +
             (divided->one_copy() ? ", and have one copy of the parameters" : ""));
    return divided;
  }

  /// Whether the optimizer's work is to be divided, as far as this rank can say.
  bool may_divide(const OptimizerTarget& target) const {
    const World& world = context_->world;
    if (world.size() == 1 || std::holds_alternative<LibTorchOptimizer>(target.optimizer)) return false;
    return args_.shard_optimizer.value_or(communicator().node_memory() != nullptr &&
                                          world.facts().max_local_size > 1 &&
                                          division_pays(target.optimizer, target.parameters));
  }

  /// Whether this rank divides the optimizer's work with those of its node, or, where it is alone there, and
  /// this was asked for, with all. Else every rank does everything. Collective.
  bool divides(const OptimizerTarget& target) {
    World& world = context_->world;
    if (DividedParameters::agreed(may_divide(target), target.parameters, world)) return true;
    if (args_.shard_optimizer.value_or(false)) {
      log_warning(std::string("strategy.shard_optimizer is on, but every rank will update all parameters: ") +
                  (world.size() == 1 ? "there is one rank"
                   : std::holds_alternative<LibTorchOptimizer>(target.optimizer)
                       ? "LibTorch's own optimizers update whole parameters"
                       : "some lie in memory that belongs to other tensors as well"));
    }
    return false;
  }

  const DdpArgs args_;
};

}  // namespace

std::vector<RankMemory> ddp_memory(const Plan& plan, const ModelOutline& model) {
  const std::optional<bool> asked = read_args<DdpArgs>(plan.strategy_arguments).shard_optimizer;
  RankMemory whole = memory_of_tensors(all_tensors(model.module)), divided;
  bool divides_all = true;
  for (const OptimizerTarget& target : model.targets) {
    const bool divides = !std::holds_alternative<LibTorchOptimizer>(target.optimizer) &&
                         asked.value_or(division_pays(target.optimizer, target.parameters));
    (divides ? divided : whole) += memory_of_training(target.parameters, target.optimizer, model.precision);
    divides_all = divides_all && divides;
  }
  std::vector<RankMemory> memory;
  for (const int of_node : ranks_on_nodes(plan)) {
    const int ranks = plan.accelerator == "cpu" ? of_node : 1;
    memory.push_back({.parameters = whole.parameters / (divides_all ? ranks : 1),
                      .gradients = whole.gradients + divided.gradients,
                      .optimizer = whole.optimizer + divided.optimizer / ranks});
  }
  return memory;
}

std::unique_ptr<Strategy> make_ddp_strategy(const DdpArgs& args) {
  return std::make_unique<DdpStrategy>(args);
}

}  // namespace cxtrain
