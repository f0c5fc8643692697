#include "zero_strategy.h"

#include <algorithm>
#include <string>
#include <utility>

#include "../ddp/reduced_gradients.h"
#include "../ddp/replicated_strategy.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/strategy/divided_parameters.h"
#include "sharded_gradients.h"

namespace cxtrain {
namespace {

/// Ends the run on all ranks, which come to the same result.
[[noreturn]] void refuse(const char* option, const char* message, const char* hint) {
  throw AgreedError(ExitCode::refused, MessageCode::conflicting_options, to_line({option, message, hint}));
}

class ZeroStrategy final : public ReplicatedStrategy {
 public:
  explicit ZeroStrategy(const ZeroArgs& args)
      : ReplicatedStrategy({.find_unused_parameters = args.find_unused_parameters,
                            .broadcast_buffers = args.broadcast_buffers,
                            .network = args.network}),
        args_(args) {}

 private:
  std::unique_ptr<OrderedExchange> make_ordered_exchange(std::span<const OptimizerTarget> targets) override {
    World& world = context_->world;
    for (const OptimizerTarget& target : targets) require_divisible(target);
    if (args_.stage == 1 || world.size() == 1) {
      return std::make_unique<ReducedGradients>(
          parameters_of(targets), communicator(), world,
          ReducerOptions{.bucket_bytes = args_.bucket_bytes,
                         .overlap = may_overlap() && args_.overlap.value_or(communicator().overlaps()),
                         .find_unused_parameters = args_.find_unused_parameters},
          buffers_of_steps());
    }
    // Batch norms exchange statistics in backward, too. A rank on which a parameter is unused completes the
    // parameter's row after backward, and would meet the other ranks in another order.
    return std::make_unique<ShardedGradients>(
        targets, ShardedGradientsInputs{.all = communicator(),
                                        .group = group(),
                                        .world = world,
                                        .row_bytes = args_.bucket_bytes,
                                        .options = {.overlap = args_.overlap.value_or(!syncs_batch_norm()),
                                                    .find_unused_parameters = args_.find_unused_parameters},
                                        .buffers = buffers_of_steps()});
  }

  std::unique_ptr<TrainedParameters> make_trained(const OptimizerTarget& target,
                                                  GradientExchange& exchange) override {
    if (context_->world.size() == 1) return LocalStrategy::make_trained(target, exchange);
    Communicator& ranks = group();
    auto divided = std::make_unique<DividedParameters>(target.parameters, context_->precision, ranks,
                                                       exchange, args_.bucket_bytes);
    // A rank that is alone on its node has the only copy.
    const bool copies = ranks.size() > 1 && !divided->one_copy();
    if (args_.stage == 3 && context_->world.any_rank(copies)) {
      refuse(
          "strategy.stage",
          "3 needs ranks that share memory, and the ranks of this node cannot map one copy of the parameters",
          "--strategy.stage 2 keeps the parameters on every rank");
    }
    log_info("optimizer: " + std::to_string(ranks.size()) + " ranks divide its state" +
             (args_.stage > 1 ? " and the gradients" : "") +
             (divided->one_copy() ? ", and have one copy of the parameters" : ""));
    return divided;
  }

  /// The ranks that divide: all. Stage 3 over several nodes divides within each node, where the ranks can
  /// have one copy of the parameters.
  Communicator& group() { return args_.stage == 3 ? ranks_of_node() : communicator(); }

  /// Collective.
  void require_divisible(const OptimizerTarget& target) {
    World& world = context_->world;
    if (world.size() == 1) return;
    if (std::holds_alternative<LibTorchOptimizer>(target.optimizer)) {
      refuse("strategy",
             "zero divides the optimizer's state, and LibTorch's own optimizers update whole parameters",
             "use --strategy ddp, or the optimizer sgd, adam or adamw");
    }
    if (DividedParameters::agreed(/*wanted=*/true, target.parameters, world)) return;
    refuse(
        "strategy",
        "zero cannot divide the parameters: some lie in memory that belongs to other tensors, too, or none "
        "is in row-major order",
        "use --strategy ddp");
  }

  const ZeroArgs args_;
};

}  // namespace

std::vector<RankMemory> zero_memory(const Plan& plan, const ModelOutline& model) {
  const auto args = read_args<ZeroArgs>(plan.strategy_arguments);
  const int stage = args.stage;
  // With accumulation gradients stay whole up to the last micro-batch.
  const bool divides_gradients = stage > 1 && plan.accumulate_grad_batches == 1;
  const RankMemory whole = memory_of_whole(model);
  // About three rows of gradients exist at a time.
  constexpr std::int64_t kRows = 3, kMostRows = 64;
  const std::int64_t rows = args.bucket_bytes == 0
                                ? whole.gradients
                                : kRows * std::max(args.bucket_bytes, whole.gradients / kMostRows);
  std::vector<RankMemory> memory;
  for (const int of_node : ranks_on_nodes(plan)) {
    const int among = stage == 3 ? of_node : plan.world_size;
    const bool one_copy = plan.accelerator == "cpu" && among == of_node;
    memory.push_back({.parameters = whole.parameters / (one_copy ? of_node : 1),
                      .gradients = divides_gradients && among > 1
                                       ? whole.gradients / among + std::min(rows, whole.gradients)
                                       : whole.gradients,
                      .optimizer = whole.optimizer / among});
  }
  return memory;
}

std::unique_ptr<Strategy> make_zero_strategy(const ZeroArgs& args) {
  return std::make_unique<ZeroStrategy>(args);
}

}  // namespace cxtrain
