#include "ddp_strategy.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "averaged_parameters.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/reduce/comm_hook.h"
#include "cxtrain/reduce/gradient_hooks.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/strategy/parameter_store.h"
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

/// The ranks of a job, as far as they decide who divides the work of optimizers.
struct RanksOfJob {
  bool several_on_a_node;
  bool nodes_are_alike;  ///< all nodes have equally many ranks
  bool share_memory;     ///< those of a node, on CPUs
  bool update_apart;     ///< nodes train apart between meetings
};

/// Whether ranks may divide the work of an optimizer, and this was asked for or pays.
bool may_divide_work(const OptimizerTarget& target, const RanksOfJob& ranks, const DdpArgs& args) {
  if (runs_in_libtorch(target.optimizer)) return false;
  // The ranks of all nodes that have one place then have the same pieces.
  if (ranks.update_apart && !(ranks.several_on_a_node && ranks.nodes_are_alike)) return false;
  return args.shard_optimizer.value_or(ranks.share_memory && ranks.several_on_a_node &&
                                       division_pays(target.optimizer, target.parameters));
}

/// The bytes of a bucket: at most those of a message between the ranks, unless the user gave others.
std::int64_t bucket_bytes(std::int64_t bytes, std::int64_t by_default, std::int64_t message) {
  return bytes == by_default ? std::min(bytes, message) : bytes;
}

/// Gradients that a hook averages over all ranks, after backward.
class HookedGradients final : public GradientExchange {
 public:
  /// `buffers`: brought to the ranks after each step; or null. All references outlive it. Collective.
  HookedGradients(std::vector<NamedTensor> parameters, std::shared_ptr<AveragingHook> hook,
                  Communicator& communicator, World& world, TensorSync* buffers, bool find_unused_parameters)
      : parameters_(std::move(parameters)),
        hook_(std::move(hook)),
        world_(world),
        buffers_(buffers),
        find_unused_parameters_(find_unused_parameters) {
    hook_->prepare(parameters_, communicator);
  }

  void zero_gradients() override {
    is_complete_ = false;
    for (NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  }
  void begin_backward(bool /*completes_step*/) override { is_complete_ = false; }
  void complete() override {
    if (std::exchange(is_complete_, true)) return;
    std::vector<bool> touched;
    std::string untouched;
    for (const NamedTensor& parameter : parameters_) {
      touched.push_back(parameter.tensor.grad().defined());
      if (!touched.back() && parameter.tensor.requires_grad())
        untouched += (untouched.empty() ? "" : ", ") + parameter.name;
    }
    hook_->average();
    if (find_unused_parameters_) {
      touched = touched_on_any_rank(touched, world_);
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (!touched[i]) parameters_[i].tensor.mutable_grad().reset();
      }
      return;
    }
    const bool skipped = std::ranges::find(touched, true) == touched.end();
    if (untouched.empty() || skipped || std::exchange(warned_unused_, true)) return;
    warn_of_missing_gradients(untouched);
  }
  void bring_buffers() override {
    if (buffers_ != nullptr) buffers_->broadcast();
  }
  Stateful* memory() override { return hook_.get(); }

 private:
  std::vector<NamedTensor> parameters_;
  std::shared_ptr<AveragingHook> hook_;
  World& world_;
  TensorSync* const buffers_;
  const bool find_unused_parameters_;
  bool is_complete_ = false;  ///< the gradients of this step
  bool warned_unused_ = false;
};

/// One exchange for the first steps of a training, and another one from then on.
class SwitchedGradients final : public GradientExchange, private Stateful {
 public:
  /// `make_second` is called once, by all ranks at the same step, when `first` has ended.
  SwitchedGradients(std::unique_ptr<GradientExchange> first, std::int64_t first_steps,
                    std::function<std::unique_ptr<GradientExchange>()> make_second)
      : current_(std::move(first)), first_steps_(first_steps), make_second_(std::move(make_second)) {}

  void zero_gradients() override {
    if (steps_ >= first_steps_ && make_second_) begin_second();
    current_->zero_gradients();
  }
  void begin_backward(bool completes_step) override { current_->begin_backward(completes_step); }
  void end_backward() override { current_->end_backward(); }
  void complete() override { current_->complete(); }
  bool carry(std::uint64_t flags) override { return current_->carry(flags); }
  std::uint64_t carried() const override { return current_->carried(); }
  std::optional<Rehearsal> rehearse(RehearsedMessages messages) override {
    return current_->rehearse(messages);
  }
  std::vector<ConnectionUse> connections() const override { return current_->connections(); }
  void end_step(std::int64_t steps) override { steps_ = steps; }
  void bring_buffers() override { current_->bring_buffers(); }
  std::string order() const override { return current_->order(); }
  void set_order(const std::string& lines) override {
    order_of_second_ = lines;
    current_->set_order(lines);
  }
  Stateful* memory() override { return this; }

 private:
  static constexpr const char *kSteps = "steps", *kSecond = "second";

  std::string state_key() const override { return "switched"; }
  void save(StateDict& state) const override {
    state.set(kSteps, steps_);
    if (of_second_) state.make_section(kSecond) = *of_second_;
    if (make_second_) return;
    StateDict& second = state.make_section(kSecond);
    if (const Stateful* const memory = current_->memory()) memory->save(second);
  }
  void load(const StateDict& state) override {
    steps_ = state.integer(kSteps);
    of_second_.reset();
    if (state.has_section(kSecond)) of_second_ = state.section(kSecond).clone();
  }
  bool differs_between_ranks() const override { return true; }

  void begin_second() {
    current_.reset();  // a parameter has room for the hook of one exchange
    current_ = std::exchange(make_second_, nullptr)();
    if (!of_second_) return;
    if (!order_of_second_.empty()) current_->set_order(order_of_second_);
    if (Stateful* const memory = current_->memory()) memory->load(*of_second_);
    of_second_.reset();
  }

  std::unique_ptr<GradientExchange> current_;
  const std::int64_t first_steps_;
  std::function<std::unique_ptr<GradientExchange>()> make_second_;  ///< empty after its call
  std::int64_t steps_ = 0;                                          ///< of the training
  /// What a saved training had, until the second exchange takes it.
  std::optional<StateDict> of_second_;
  std::string order_of_second_;
};

class DdpStrategy final : public ReplicatedStrategy {
 public:
  explicit DdpStrategy(const DdpArgs& args) : ReplicatedStrategy(args), args_(args) {}

  bool ranks_update_apart() const override {
    return args_.model_averaging_period > 0 && context_->world.facts().num_nodes > 1;
  }

  void teardown() override {
    ReplicatedStrategy::teardown();
    alone_.reset();
    alike_.reset();
  }

 private:
  std::unique_ptr<GradientExchange> make_exchange(std::span<const OptimizerTarget> targets) override {
    const std::shared_ptr<CommHook> hook = context_->make_comm_hook ? context_->make_comm_hook() : nullptr;
    const auto* const rounding =
        gradients_leave_node() ? dynamic_cast<const RoundingHook*>(hook.get()) : nullptr;
    auto averaging = std::dynamic_pointer_cast<AveragingHook>(hook);
    if (context_->world.size() == 1) averaging.reset();  // one rank has nothing to send
    hint_at_settings(averaging.get());
    const DdpArgs defaults;
    const std::int64_t message = communicator().message_bytes();
    const ReducerOptions options{
        .first_bucket_bytes = bucket_bytes(args_.first_bucket_bytes, defaults.first_bucket_bytes, message),
        .bucket_bytes = bucket_bytes(args_.bucket_bytes, defaults.bucket_bytes, message),
        .overlap = may_overlap() && args_.overlap.value_or(communicator().overlaps()),
        .find_unused_parameters = args_.find_unused_parameters,
        .wire_dtype = rounding != nullptr ? std::optional(rounding->dtype()) : std::nullopt,
        .round_exposed_only = rounding != nullptr && rounding->only_late()};
    std::vector<NamedTensor> parameters = parameters_of(targets);
    auto exact = std::make_unique<ReducedGradients>(parameters, communicator(), context_->world, options,
                                                    buffers_of_steps());
    if (averaging != nullptr) {
      return std::make_unique<SwitchedGradients>(
          std::move(exact), averaging->start(),
          [this, parameters, averaging]() -> std::unique_ptr<GradientExchange> {
            return std::make_unique<HookedGradients>(parameters, averaging, communicator(), context_->world,
                                                     buffers_of_steps(), args_.find_unused_parameters);
          });
    }
    if (ranks_update_apart()) {
      return std::make_unique<SwitchedGradients>(
          std::move(exact), args_.model_averaging_start,
          [this, parameters, options]() -> std::unique_ptr<GradientExchange> {
            return of_node(parameters, options);
          });
    }
    return exact;
  }

  std::unique_ptr<GradientExchange> of_node(const std::vector<NamedTensor>& parameters,
                                            ReducerOptions options) {
    Communicator& node = ranks_of_own_node();
    options.overlap = options.overlap && node.overlaps();
    return std::make_unique<ReducedGradients>(parameters, node, context_->world, options,
                                              /*buffers=*/nullptr);
  }

  /// Returns the ranks of this node, also if this rank is alone. Collective at the first call.
  Communicator& ranks_of_own_node() {
    const WorldFacts& facts = context_->world.facts();
    if (facts.max_local_size > 1) return ranks_of_node();
    if (alone_ == nullptr) alone_ = communicator().split(facts.node, facts.rank);
    return *alone_;
  }

  /// Returns the ranks of all nodes that have this rank's place. Collective at the first call.
  Communicator& ranks_in_this_place() {
    const WorldFacts& facts = context_->world.facts();
    if (alike_ == nullptr) alike_ = communicator().split(facts.local_rank, facts.node);
    return *alike_;
  }

  /// Ranks of one node sum gradients where they lie.
  bool gradients_leave_node() const {
    return context_->world.size() > 1 &&
           (context_->world.facts().num_nodes > 1 || communicator().node_memory() == nullptr);
  }

  /// `averaging`: the hook that averages; or null.
  void hint_at_settings(const AveragingHook* averaging) const {
    if (args_.model_averaging_period > 0 && !ranks_update_apart())
      log_info("strategy.model_averaging_period: there is one node, so all ranks average their gradients");
    if (args_.comm_hook == kNoCommHook) return;
    if (averaging != nullptr) {
      log_info("strategy.comm_hook: gradients are exact for " + std::to_string(averaging->start()) +
               " steps, then " + args_.comm_hook + " averages them" +
               (gradients_leave_node() ? "" : "; within one node that saves no time"));
    } else if (!gradients_leave_node()) {
      log_info("strategy.comm_hook: gradients are not rounded, because they do not leave the node");
    }
  }

  std::unique_ptr<TrainedParameters> make_trained(const OptimizerTarget& target,
                                                  GradientExchange& exchange) override {
    const bool divided = divides(target);
    std::unique_ptr<TrainedParameters> trained =
        divided ? make_divided(target, exchange) : LocalStrategy::make_trained(target, exchange);
    if (!ranks_update_apart()) return trained;
    if (runs_in_libtorch(target.optimizer)) {
      const Problem problem{
          "strategy.model_averaging_period",
          "averages the state of optimizers, and LibTorch's own optimizers keep theirs to themselves",
          "use the optimizer sgd, adam or adamw", MessageCode::conflicting_options};
      throw AgreedError(ExitCode::refused, problem.code, to_line(problem));
    }
    // Whole parameters are the same on all ranks of a node.
    return std::make_unique<AveragedParameters>(
        std::move(trained),
        AveragedParameters::Ranks{communicator(), divided ? ranks_in_this_place() : communicator()},
        buffers_of_steps(),
        AveragedParameters::Schedule{.start = args_.model_averaging_start,
                                     .period = args_.model_averaging_period},
        outer_step());
  }

  std::optional<OuterStep::Settings> outer_step() const {
    if (!has_outer_step(args_)) return std::nullopt;
    return OuterStep::Settings{.lr = args_.outer_lr, .momentum = args_.outer_momentum};
  }

  std::unique_ptr<TrainedParameters> make_divided(const OptimizerTarget& target, GradientExchange& exchange) {
    Communicator& group = ranks_of_node();
    auto divided = std::make_unique<ParameterStore>(target.parameters, context_->precision, exchange, &group,
                                                    place_rows(target.parameters, group, /*row_bytes=*/0));
    log_info("optimizer: " + std::to_string(group.size()) + " ranks divide its work" +
             (divided->one_copy() ? ", and have one copy of the parameters" : ""));
    return divided;
  }

  /// Whether the optimizer's work is to be divided, as far as this rank can say.
  bool may_divide(const OptimizerTarget& target) const {
    const WorldFacts& facts = context_->world.facts();
    if (facts.size == 1) return false;
    const RanksOfJob ranks{.several_on_a_node = facts.max_local_size > 1,
                           .nodes_are_alike = facts.size == facts.num_nodes * facts.max_local_size,
                           .share_memory = communicator().node_memory() != nullptr,
                           .update_apart = ranks_update_apart()};
    return may_divide_work(target, ranks, args_);
  }

  /// Whether this rank divides the optimizer's work with those of its node, or, where it is alone there, and
  /// this was asked for, with all. Else every rank does everything. Collective.
  bool divides(const OptimizerTarget& target) {
    World& world = context_->world;
    if (agree_to_divide(may_divide(target), target.parameters, world)) return true;
    if (args_.shard_optimizer.value_or(false)) {
      log_warning(std::string("strategy.shard_optimizer is on, but every rank will update all parameters: ") +
                  (world.size() == 1                    ? "there is one rank"
                   : runs_in_libtorch(target.optimizer) ? "LibTorch's own optimizers update whole parameters"
                   : ranks_update_apart()
                       ? "nodes train apart, and have one rank or different numbers of ranks"
                       : "some lie in memory that belongs to other tensors as well"));
    }
    return false;
  }

  const DdpArgs args_;
  std::unique_ptr<Communicator> alone_, alike_;  ///< null before their first use
};

}  // namespace

std::vector<RankMemory> ddp_memory(const Plan& plan, const ModelOutline& model) {
  const auto args = read_args<DdpArgs>(plan.strategy_arguments);
  const std::vector<int> of_nodes = ranks_on_nodes(plan);
  const bool on_cpus = plan.accelerator == "cpu", several = std::ranges::max(of_nodes) > 1;
  const bool apart = args.model_averaging_period > 0 && plan.num_nodes > 1;
  const bool alike = std::ranges::adjacent_find(of_nodes, std::ranges::not_equal_to()) == of_nodes.end();
  const RanksOfJob ranks{
      .several_on_a_node = several, .nodes_are_alike = alike, .share_memory = on_cpus, .update_apart = apart};
  const int gradients =
      plan.comm_hook && plan.world_size > 1 ? 1 + plan.comm_hook->traits.remembered_gradients : 1;
  // An outer step keeps its start and its momentum, of the pieces of the rank.
  const int outer = apart && has_outer_step(args) ? 2 : 0;
  const RankMemory untrained = memory_of_untrained(model);
  const std::int64_t in_passing =
      plan.accumulate_grad_batches > 1 ? gradients_in_passing(model.module.all_parameters()) : 0;
  RankMemory whole, divided;
  for (const OptimizerTarget& target : model.targets) {
    RankMemory& memory = may_divide_work(target, ranks, args) ? divided : whole;
    memory += memory_of_tensors(target.parameters);
    memory += memory_of_training(target.parameters, target.optimizer, model.precision, outer);
  }
  std::vector<RankMemory> memory;
  for (const int of_node : of_nodes) {
    // On CPUs the ranks of a node have one copy of the parameters.
    const int copies = on_cpus ? of_node : 1, updaters = several ? of_node : plan.world_size;
    memory.push_back(
        {.parameters = untrained.parameters + whole.parameters + divided.parameters / copies,
         .gradients = untrained.gradients + in_passing + gradients * (whole.gradients + divided.gradients),
         .optimizer = whole.optimizer + divided.optimizer / updaters});
  }
  return memory;
}

std::unique_ptr<Strategy> make_ddp_strategy(const DdpArgs& args) {
  return std::make_unique<DdpStrategy>(args);
}

}  // namespace cxtrain
