#include "zero_strategy.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "../ddp/reduced_gradients.h"
#include "../ddp/replicated_strategy.h"
#include "block_walk.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "cxtrain/reduce/divided_rows.h"
#include "cxtrain/strategy/parameter_store.h"
#include "cxtrain/trainer/module.h"
#include "gathered_model.h"
#include "parts_of_rows.h"
#include "sharded_gradients.h"
#include "traits.h"

namespace cxtrain {
namespace {

/// Ends the run on all ranks, which come to the same result.
[[noreturn]] void throw_agreed(const Problem& problem) {
  throw AgreedError(ExitCode::refused, problem.code, to_line(problem));
}

/// The rows of all targets. No row has parameters of two optimizers.
std::vector<DividedRow> rows_of(std::span<const OptimizerTarget> targets, int ranks, std::int64_t row_bytes) {
  std::vector<DividedRow> rows;
  std::size_t first = 0;
  for (const OptimizerTarget& target : targets) {
    for (DividedRow& row : divided_rows(target.parameters, ranks, row_bytes)) {
      for (std::size_t& parameter : row.parameters) parameter += first;
      rows.push_back(std::move(row));
    }
    first += target.parameters.size();
  }
  return rows;
}

/// Why stage 3 needs blocks here.
Problem no_blocks() {
  return {
      "strategy.stage",
      "3 gathers the parameters block by block where ranks do not share memory, and the model has no blocks",
      "derive the model from cxtrain::BlockModule or cxtrain::ChainModule, or use --strategy.stage 2",
      MessageCode::conflicting_options};
}

Problem cannot_map() {
  return {"strategy.parameters", "the ranks of this node cannot map one copy of the parameters",
          "--strategy.parameters all gathers the parameters of a model in blocks, --strategy.stage 2 keeps "
          "the parameters on every rank",
          MessageCode::conflicting_options};
}

/// The memory of a rank's parameters.
struct Gathered {
  Gathered(Trainable& module, Blocks& blocks, Communicator& group, std::int64_t row_bytes,
           std::span<const Piece> kept)
      : model(module, blocks, group, row_bytes, kept), walk(blocks, model) {}

  GatheredModel model;
  BlockWalk walk;
};

class ZeroStrategy final : public ReplicatedStrategy {
 public:
  explicit ZeroStrategy(const ZeroArgs& args) : ReplicatedStrategy(args), args_(args) {}

  void place(Trainable& module, const StrategyContext& context) override {
    place_ = parameter_place_of(context.plan);
    if (gathers_blocks(place_) && module.blocks() == nullptr) throw ConfigError({no_blocks()});
    LocalStrategy::place(module, context);
  }

  void connect() override {
    ReplicatedStrategy::connect();
    Blocks* const blocks = module_->blocks();
    std::vector<Piece> kept = blocks != nullptr ? std::exchange(blocks->kept(), {}) : std::vector<Piece>();
    const bool in_parts = divides_parameters() && context_->world.any_rank(!kept.empty());
    if (place_ == ParameterPlace::automatic && divides_parameters()) {
      place_ = ranks_of_node().node_memory() != nullptr ? ParameterPlace::mapped : ParameterPlace::all;
      // A model that was built for one copy on each node is in other parts.
      if (place_ == ParameterPlace::all && in_parts) throw_agreed(cannot_map());
    }
    if (in_parts)
      kept = parts_of_rows(module_->all_parameters(), std::move(kept), group(), context_->world,
                           args_.bucket_bytes);
    if (gathers_blocks(place_)) {
      gather_blocks(kept);
    } else if (in_parts) {
      map_parts(kept);
    }
  }

  std::vector<std::unique_ptr<TrainedParameters>> prepare(const std::vector<OptimizerTarget>& targets,
                                                          Backward backward) override {
    if (gathered_) {
      if (backward == Backward::apart)
        throw_agreed(
            {"strategy.stage",
             "3 cannot train a model that runs its own backward passes where its blocks are gathered",
             "set automatic_optimization to true, or use --strategy.stage 2",
             MessageCode::conflicting_options});
      // A training's state has them whole on every rank.
      gathered_->model.keep_whole(untrained_parameters(*module_, targets));
    }
    return ReplicatedStrategy::prepare(targets, backward);
  }

  void forward(const Batch& batch, std::int64_t batch_idx) override {
    begin_forward();
    ReplicatedStrategy::forward(batch, batch_idx);
    end_forward();
  }
  void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) override {
    in_forward([&] {
      ReplicatedStrategy::evaluation_step(stage, batch, batch_idx);
      return at::Tensor();
    });
  }
  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override {
    return in_forward([&] { return ReplicatedStrategy::predict_step(batch, batch_idx); });
  }

  void visit_whole(const std::function<void(const NamedTensor&)>& visit) override {
    gathered_ ? gathered_->model.visit(visit) : ReplicatedStrategy::visit_whole(visit);
  }
  std::vector<NamedTensor> whole_tensors() override {
    return gathered_ ? gathered_->model.deal_out() : ReplicatedStrategy::whole_tensors();
  }
  bool ranks_keep_whole_models() const override { return !gathered_; }

  std::string describe() const override {
    const std::string way = ReplicatedStrategy::describe();
    return gathered_ ? way + "; parameters in shards, gathered block by block" : way;
  }

  void teardown() override {
    release_exchanges();
    if (gathered_ && whole_at_start()) gathered_->model.restore();
    if (!whole_at_start())
      module_->blocks()->kept() = gathered_ ? gathered_->model.give_back_shards() : mapped_parts();
    gathered_.reset();
    if (Blocks* const blocks = module_->blocks()) blocks->set_whole(whole_at_start());
    ReplicatedStrategy::teardown();
  }

 private:
  void begin_forward() {
    if (gathered_) gathered_->walk.begin_forward();
  }
  void end_forward() {
    if (gathered_) gathered_->walk.end_forward();
  }

  /// Also ends the walk over the blocks if the model does not define the method: a rank without a sample
  /// walks over the blocks without a call of the method.
  at::Tensor in_forward(const std::function<at::Tensor()>& step) {
    begin_forward();
    try {
      at::Tensor output = step();
      end_forward();
      return output;
    } catch (const StepNotDefined&) {
      end_forward();
      throw;
    }
  }

  StepOutput training_step(const MicroStep& step) override {
    begin_forward();  // its end is in the exchange of gradients
    return ReplicatedStrategy::training_step(step);
  }

  std::unique_ptr<GradientExchange> make_exchange(std::span<const OptimizerTarget> targets) override {
    World& world = context_->world;
    for (const OptimizerTarget& target : targets) require_divisible(target);
    const std::vector<NamedTensor> parameters = parameters_of(targets);
    if (args_.stage == 1 || world.size() == 1) {
      return std::make_unique<ReducedGradients>(
          parameters, communicator(), world,
          ReducerOptions{.bucket_bytes = args_.bucket_bytes,
                         .overlap = may_overlap() && args_.overlap.value_or(communicator().overlaps()),
                         .find_unused_parameters = args_.find_unused_parameters},
          buffers_of_steps());
    }
    std::vector<DividedRow> rows;
    if (gathered_) {
      gathered_->model.count_rows_of(parameters);
      for (PlacedRow& placed : gathered_->model.rows_of(parameters)) rows.push_back(std::move(placed.row));
    } else {
      rows = rows_of(targets, group().size(), args_.bucket_bytes);
    }
    // Batch norms exchange statistics in backward, too. A rank on which a parameter is unused completes the
    // parameter's row after backward, and would meet the other ranks in another order.
    const bool overlap = !gathered_ && args_.overlap.value_or(!syncs_batch_norm());
    // Only the strategy's own backward passes end where their gradients are complete.
    const bool accumulate_shards =
        args_.accumulation == Accumulation::shards && backward_passes() == Backward::together;
    return std::make_unique<ShardedGradients>(
        parameters, ShardedGradientsInputs{.all = communicator(),
                                           .group = group(),
                                           .world = world,
                                           .rows = std::move(rows),
                                           .options = {.overlap = overlap,
                                                       .find_unused_parameters = args_.find_unused_parameters,
                                                       .accumulate_shards = accumulate_shards},
                                           .buffers = buffers_of_steps(),
                                           .walk = gathered_ ? &gathered_->walk : nullptr});
  }

  std::unique_ptr<TrainedParameters> make_trained(const OptimizerTarget& target,
                                                  GradientExchange& exchange) override {
    if (context_->world.size() == 1) return LocalStrategy::make_trained(target, exchange);
    Communicator& ranks = group();
    auto divided = std::make_unique<ParameterStore>(
        target.parameters, context_->precision, exchange, &ranks,
        gathered_ ? gathered_->model.rows_of(target.parameters)
                  : place_rows(target.parameters, ranks, args_.bucket_bytes));
    // A rank that is alone on its node has the only copy.
    const bool copies = ranks.size() > 1 && !divided->one_copy();
    if (divides_parameters() && !gathered_ && context_->world.any_rank(copies)) {
      throw_agreed(cannot_map());
    }
    log_info("optimizer: " + std::to_string(ranks.size()) + " ranks divide its state" +
             (args_.stage > 1 ? " and the gradients" : "") + (gathered_ ? " and the parameters" : "") +
             (divided->one_copy() ? ", and have one copy of the parameters" : ""));
    return divided;
  }

  /// Collective.
  void gather_blocks(std::span<const Piece> kept) {
    Blocks* const blocks = module_->blocks();
    if (blocks == nullptr) throw_agreed(no_blocks());
    require_divisible(module_->all_parameters());
    gathered_.emplace(*module_, *blocks, group(), args_.bucket_bytes, kept);
    blocks->set_whole(false);
    give_back_freed_memory();
  }
  /// Gives the ranks of a node one copy of a model that they have in parts. Collective.
  void map_parts(std::span<const Piece> kept) {
    const std::vector<NamedTensor> parameters = module_->all_parameters();
    require_divisible(parameters);
    if (context_->world.any_rank(!can_map(parameters))) throw_agreed(cannot_map());
    place_rows(parameters, group(), args_.bucket_bytes, kept);
    module_->blocks()->set_whole(true);
  }
  /// Leaves the parameters hollow, and returns this rank's parts of them.
  std::vector<Piece> mapped_parts() {
    const at::NoGradGuard no_grad;
    std::vector<Piece> parts;
    for (const auto& [parameter, range] :
         parts_of_rank(module_->all_parameters(), group().size(), group().rank(), args_.bucket_bytes)) {
      if (std::optional<Piece> part = keep_part(parameter.name, parameter.tensor, range))
        parts.push_back(*std::move(part));
    }
    return parts;
  }

  /// Returns whether the node has room for one copy of the parameters. Collective over the group.
  bool can_map(const std::vector<NamedTensor>& parameters) {
    if (group().size() == 1) return true;
    const std::vector<DividedRow> rows = divided_rows(parameters, group().size(), args_.bucket_bytes);
    return one_copy_of(rows, parameters, group()) != nullptr;
  }

  bool divides_parameters() const { return args_.stage == 3 && context_->world.size() > 1; }

  /// The ranks that divide: all, or those of a node.
  Communicator& group() {
    const bool of_node = divides_parameters() && place_ != ParameterPlace::all;
    return of_node ? ranks_of_node() : communicator();
  }

  /// Collective.
  void require_divisible(const OptimizerTarget& target) {
    if (context_->world.size() == 1) return;
    if (runs_in_libtorch(target.optimizer)) {
      throw_agreed(
          {"strategy",
           "zero divides the optimizer's state, and LibTorch's own optimizers update whole parameters",
           "use --strategy ddp, or the optimizer sgd, adam or adamw", MessageCode::conflicting_options});
    }
    if (!gathered_) require_divisible(target.parameters);  // else `connect` did
  }
  void require_divisible(const std::vector<NamedTensor>& parameters) {
    if (agree_to_divide(/*wanted=*/true, parameters, context_->world)) return;
    throw_agreed(
        {"strategy",
         "zero cannot divide the parameters: some lie in memory that belongs to other tensors, too, or none "
         "is in row-major order",
         "use --strategy ddp", MessageCode::conflicting_options});
  }

  const ZeroArgs args_;
  ParameterPlace place_ = ParameterPlace::automatic;
  std::optional<Gathered> gathered_;  ///< if blocks are gathered
};

/// Returns the bytes of gradients in the largest row.
std::int64_t largest_row(const std::vector<NamedTensor>& parameters, std::int64_t row_bytes) {
  std::int64_t largest = 0;
  for (const DividedRow& row : divided_rows(parameters, /*ranks=*/1, row_bytes)) {
    std::int64_t bytes = 0;
    for (const std::size_t parameter : row.parameters) {
      const at::Tensor& tensor = parameters[parameter].tensor;
      if (tensor.requires_grad()) bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

}  // namespace

std::vector<RankMemory> zero_memory(const Plan& plan, const ModelOutline& model) {
  const auto args = read_args<ZeroArgs>(plan.strategy_arguments);
  const int stage = args.stage;
  const ParameterPlace place = parameter_place_of(plan);
  const bool gathers = gathers_blocks(place);
  Blocks* const blocks = model.module.blocks();
  if (gathers && blocks == nullptr) throw ConfigError({no_blocks()});
  const RankMemory whole = memory_of_whole(model);
  const RankMemory undivided = memory_of_untrained(model);
  const std::vector<NamedTensor> parameters_of_model = model.module.all_parameters();
  // Rows of gradients that exist at a time (measured). Scatters of gathered blocks wait for gathers.
  const std::int64_t rows = (gathers ? 5 : 3) * largest_row(parameters_of_model, args.bucket_bytes);
  std::vector<RankMemory> memory;
  for (const int of_node : ranks_on_nodes(plan)) {
    const int among = stage == 3 && place != ParameterPlace::all ? of_node : plan.world_size;
    const bool one_copy = !gathers && plan.accelerator == "cpu" && among == of_node;
    std::int64_t parameters =
        undivided.parameters + (whole.parameters - undivided.parameters) / (one_copy ? of_node : 1);
    // Gathered rows have places for parameters that are whole on every rank, too.
    if (gathers)
      parameters = undivided.parameters + memory_of_tensors(parameters_of_model).parameters / among +
                   slot_bytes(model.module, *blocks, among, args.bucket_bytes);
    const std::int64_t shard = whole.gradients / among;
    std::int64_t gradients = whole.gradients;
    if (stage == 1 || among == 1) {
      if (plan.accumulate_grad_batches > 1) gradients += gradients_in_passing(parameters_of_model);
    } else {
      gradients = shard + std::min(rows, whole.gradients);
      const bool sums_whole = args.accumulation == Accumulation::whole;
      if (plan.accumulate_grad_batches > 1) gradients += sums_whole ? whole.gradients : shard;
    }
    memory.push_back({.parameters = parameters,
                      .gradients = undivided.gradients + gradients,
                      .optimizer = whole.optimizer / among});
  }
  return memory;
}

KeptRanges zero_kept(const Plan& plan, const ModelOutline& model, int rank) {
  if (plan.world_size == 1 || !divides_parameters(plan)) return {};
  const auto args = read_args<ZeroArgs>(plan.strategy_arguments);
  const ParameterPlace place = parameter_place_of(plan);
  const auto on_node_of = [&](int other) {
    return plan.ranks[static_cast<std::size_t>(other)].node ==
           plan.ranks[static_cast<std::size_t>(rank)].node;
  };
  // The ranks that divide, and this rank's place among them.
  int among = 0, own = 0;
  for (int other = 0; other < plan.world_size; ++other) {
    if (place != ParameterPlace::all && !on_node_of(other)) continue;
    if (other == rank) own = among;
    ++among;
  }
  KeptRanges kept;
  for (const auto& [parameter, range] :
       parts_of_rank(model.module.all_parameters(), among, own, args.bucket_bytes))
    kept.of[parameter.name] = range;
  return kept;
}

std::unique_ptr<Strategy> make_zero_strategy(const ZeroArgs& args) {
  return std::make_unique<ZeroStrategy>(args);
}

}  // namespace cxtrain
