#include "pipeline_strategy.h"

#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "cxtrain/accelerator/make_communicator.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/rank_messages.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/strategy/block_pass.h"
#include "cxtrain/strategy/chain.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/strategy/parameter_store.h"
#include "cxtrain/trainer/module.h"
#include "schedule.h"
#include "split_backward.h"
#include "stage_model.h"
#include "stage_parameters.h"
#include "traits.h"

namespace cxtrain {
namespace {

Carry run_range(Blocks& chain, const BlockRange& range, Carry carry) {
  for (std::size_t block = range.begin; block < range.end; ++block) carry = run_block(chain, block, carry);
  return carry;
}

/// The ends of a graph between a forward pass and its backward pass.
struct Forwarded {
  Carry inputs;                     ///< leaves with gradients
  std::vector<at::Tensor> outputs;  ///< the loss of the last part, or what the part hands on
};

/// The step methods of the model call `run` on the rank with the last block: it returns the outputs of the
/// last part of the model.
class LastPart final : public ChainRunner {
 public:
  /// `model`: a chain.
  LastPart(Trainable& model, BlockRange range, Carry inputs)
      : model_(model), range_(range), inputs_(std::move(inputs)) {
    model_.chain()->lend(this);
  }
  ~LastPart() override { model_.chain()->lend(nullptr); }
  LastPart(const LastPart&) = delete;
  LastPart& operator=(const LastPart&) = delete;

  Carry run(const Batch& /*batch*/) override {
    if (std::exchange(ran_, true))
      throw TrainingError("a step calls run() twice; under pipeline the other stages work for one call");
    return run_range(*model_.blocks(), range_, std::move(inputs_));
  }

 private:
  Trainable& model_;
  BlockRange range_;
  Carry inputs_;
  bool ran_ = false;
};

class PipelineStrategy final : public LocalStrategy {
 public:
  explicit PipelineStrategy(PipelineArgs args) : args_(std::move(args)) {}

  void place(Trainable& module, const StrategyContext& context) override {
    blocks_ = &blocks_of_chain(module);
    const int ranks = context.world.size();
    grid_ = {.rank = context.world.rank(),
             .ranks = ranks,
             .stages = args_.stages == 0 ? ranks : static_cast<int>(args_.stages)};
    parts_ = parts_of_chain(*blocks_, args_, grid_.stages);
    LocalStrategy::place(module, context);
    blocks_->kept().clear();  // nothing is kept of parameters that other stages have
    model_.emplace(module, *blocks_, grid_, parts_);
  }

  void connect() override {
    World& world = context_->world;
    const std::vector<NamedTensor> parameters = module_->all_parameters();
    verify_same_parameters(parameters, world);
    world_ = make_communicator(world, context_->devices, context_->accelerator);
    column_ = world_->split(grid_.column(), world.rank());
    stage_ = world_->split(grid_.stage(), world.rank());
    if (grid_.stages > 1) messages_ = make_rank_messages(world);
    model_->connect(*world_, *column_);
    whole_at_start_ = broadcast_whole(parameters, *world_, world);
    TensorSync::broadcast_once(module_->all_buffers(), *world_);
    if (grid_.stages == 1) return;
    blocks_->set_whole(false);
    model_->release();
  }

  DataShard data_shard() const override { return {grid_.column(), grid_.columns()}; }
  std::vector<std::unique_ptr<TrainedParameters>> prepare(const std::vector<OptimizerTarget>& targets,
                                                          Backward backward) override {
    if (backward == Backward::apart)
      throw AgreedError(
          ExitCode::refused, MessageCode::conflicting_options,
          to_line({"trainer.strategy", "pipeline cannot train a model that runs its own backward passes",
                   "set automatic_optimization to true, or use --strategy ddp"}));
    for (const OptimizerTarget& target : targets) {
      if (needs_closure(target.optimizer) && grid_.stages > 1)
        throw AgreedError(
            ExitCode::refused, MessageCode::conflicting_options,
            to_line({"optimizer", "this optimizer needs all parameters of the model on one rank",
                     "use sgd, adam or adamw with pipeline, or --strategy ddp"}));
    }
    // A training's state has them whole on every rank.
    model_->restore(untrained_parameters(*module_, targets));
    return LocalStrategy::prepare(targets, backward);
  }

  StepResult step(StepPlan& plan) override {
    const PipelineShape shape{grid_.stages, chunks(), plan.size()};
    micro_batches_.assign(static_cast<std::size_t>(shape.micro_batches), {});
    in_step_ = grid_.stages > 1;
    StepResult result;
    if (shape.micro_batches != planned_for_) {
      passes_ = passes_of_stage(args_.schedule, shape, grid_.stage());
      planned_for_ = shape.micro_batches;
    }
    for (const Pass& pass : passes_) {
      switch (pass.way) {
        case Pass::Way::forward:
          run_forward(plan, pass);
          break;
        case Pass::Way::backward:
          run_backward(plan, pass, result);
          break;
        case Pass::Way::weights:
          run_weights(pass);
          break;
      }
    }
    micro_batches_.clear();
    in_step_ = false;
    return result;
  }

  void forward(const Batch& batch, std::int64_t batch_idx) override {
    if (batch.size == 0) return;
    const at::NoGradGuard no_grad;
    Carry inputs = run_without_gradients(batch);
    if (!has_last_part()) return;
    const LastPart runner(*module_, parts_.back(), std::move(inputs));
    LocalStrategy::forward(batch, batch_idx);
  }

  void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) override {
    if (batch.size == 0) return;
    const bool validates = stage == EvaluationStage::validate;
    evaluate(validates ? "validate" : "test", validates ? "validation_step" : "test_step", batch, [&] {
      LocalStrategy::evaluation_step(stage, batch, batch_idx);
      return at::Tensor();
    });
  }

  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override {
    if (batch.size == 0) return {};
    return evaluate("predict", "predict_step", batch,
                    [&] { return LocalStrategy::predict_step(batch, batch_idx); });
  }

  void agree_on_buffers() override { model_->bring_buffers(); }
  void complete_buffers() override { model_->complete_buffers(); }
  void visit_whole(const std::function<void(const NamedTensor&)>& visit) override { model_->visit(visit); }
  bool ranks_keep_whole_models() const override { return grid_.stages == 1; }
  std::vector<NamedTensor> whole_tensors() override {
    std::vector<NamedTensor> here = all_tensors(*module_);
    std::erase_if(here, [this](const NamedTensor& named) { return !model_->has(named.name); });
    return here;
  }
  std::string describe() const override {
    std::string text = std::to_string(grid_.stages) + " stages";
    if (grid_.columns() > 1) text += " on each of " + std::to_string(grid_.columns()) + " columns of ranks";
    text += ", blocks";
    for (const BlockRange& part : parts_) {
      text += " " + blocks_->name_of(part.begin);
      if (part.end - part.begin > 1) text += " to " + blocks_->name_of(part.end - 1);
      text += &part == &parts_.back() ? "" : " |";
    }
    return text + "; " + world_->description();
  }

  void teardown() override {
    release_exchanges();
    // Nobody receives the messages of a step in which the run has ended.
    if (messages_ && !in_step_) messages_->wait_for_all();
    if (whole_at_start_) model_->restore_all();
    blocks_->set_whole(whole_at_start_ || grid_.stages == 1);
    messages_.reset();
    stage_.reset();
    column_.reset();
    world_.reset();
  }

 private:
  std::unique_ptr<GradientExchange> make_exchange(std::span<const OptimizerTarget> targets) override {
    return std::make_unique<StageGradients>(
        model_->own(parameters_of(targets)), *model_,
        StagePeers{.grid = grid_, .stage = *stage_, .messages = messages_.get(), .tag = first_free_tag()});
  }

  std::unique_ptr<TrainedParameters> make_trained(const OptimizerTarget& target,
                                                  GradientExchange& exchange) override {
    const std::vector<NamedTensor> own = model_->own(target.parameters);
    std::unique_ptr<TrainedParameters> here;
    if (args_.shard_optimizer && stage_->size() > 1 && !divisible(own).empty()) {
      here = std::make_unique<ParameterStore>(own, context_->precision, exchange, stage_.get(),
                                              place_rows(own, *stage_, /*row_bytes=*/0));
    } else {
      here = LocalStrategy::make_trained({target.optimizer, own}, exchange);
    }
    return std::make_unique<StageParameters>(target.parameters, std::move(here), *model_, *column_, in_step_);
  }

  int chunks() const { return chunks_of(args_); }
  /// Number of a part among all parts of the model.
  int part_of(int chunk) const { return chunk * grid_.stages + grid_.stage(); }
  bool is_last(int part) const { return part + 1 == static_cast<int>(parts_.size()); }
  bool has_last_part() const { return is_last(part_of(chunks() - 1)); }
  int rank_of(int part) const { return grid_.rank_of(part % grid_.stages); }

  /// A message between part k - 1 and part k has the tag 3k + its kind. Carries without gradients have a kind
  /// of their own, because a validation may begin before all carries of a step have been received.
  enum class Message : std::uint8_t { carry, gradients, carry_without_gradients };
  static int tag(int part, Message kind) { return 3 * part + static_cast<int>(kind); }
  int first_free_tag() const { return tag(static_cast<int>(parts_.size()), Message::carry); }
  static Message kind_of_carry() {
    return c10::GradMode::is_enabled() ? Message::carry : Message::carry_without_gradients;
  }
  void send_carry(int part, const Carry& outputs) {
    messages_->send(outputs.tensors, rank_of(part), tag(part, kind_of_carry()));
  }
  Carry receive_carry(int part) {
    Carry carry(messages_->receive(rank_of(part - 1), tag(part, kind_of_carry())));
    for (at::Tensor& tensor : carry.tensors) {
      tensor = tensor.to(context_->device);
      if (c10::GradMode::is_enabled() && tensor.is_floating_point()) tensor.set_requires_grad(true);
    }
    return carry;
  }

  /// The message begins with the loss, so that every stage has the loss. Without a loss the message has no
  /// gradients.
  void send_gradients(int part, const at::Tensor& loss, const Carry& inputs) {
    std::vector<at::Tensor> message{loss};
    if (loss.defined()) {
      for (const at::Tensor& input : inputs.tensors) message.push_back(input.grad());
    }
    messages_->send(message, rank_of(part - 1), tag(part, Message::gradients));
  }

  struct Received {
    at::Tensor loss;
    std::vector<at::Tensor> gradients;
  };
  Received receive_gradients(int part) {
    Received received{{}, messages_->receive(rank_of(part + 1), tag(part + 1, Message::gradients))};
    for (at::Tensor& tensor : received.gradients) {
      if (tensor.defined()) tensor = tensor.to(context_->device);
    }
    received.loss = received.gradients.front();
    received.gradients.erase(received.gradients.begin());
    return received;
  }

  Carry run_blocks(int part, Carry carry) {
    const AutocastGuard autocast(context_->device.type(), context_->precision.autocast_dtype);
    return run_range(*blocks_, parts_[static_cast<std::size_t>(part)], std::move(carry));
  }
  /// Returns what the part gets of a batch: from the chain, or from the rank with the part before.
  Carry inputs_of(int part, const Batch& batch) {
    return part == 0 ? module_->chain()->first_carry(batch) : receive_carry(part);
  }

  /// A micro-batch of the step under way.
  struct MicroBatch {
    bool has_samples = false;
    std::vector<std::optional<Forwarded>> chunks;
    std::optional<SplitBackward> weights;  ///< of the schedule zb1p, between its two backward passes
  };
  /// Runs backward from the gradients of the outputs; an undefined gradient counts as none.
  void backward(const Forwarded& forwarded, std::span<const at::Tensor> gradients, MicroBatch& micro_batch) {
    std::vector<at::Tensor> from, with, to;
    for (std::size_t i = 0; i < forwarded.outputs.size(); ++i) {
      if (!gradients[i].defined() || !forwarded.outputs[i].requires_grad()) continue;
      from.push_back(forwarded.outputs[i]);
      with.push_back(gradients[i]);
    }
    if (from.empty()) return;
    if (args_.schedule != Schedule::zero_bubble) return torch::autograd::backward(from, with);
    for (const at::Tensor& input : forwarded.inputs.tensors) {
      if (input.requires_grad()) to.push_back(input);
    }
    micro_batch.weights.emplace(from, with, to);
  }

  /// A pass through a part of the model before the last part; the last part runs forward when its backward
  /// pass is due, which follows at once. Nobody runs the passes of a micro-batch of which this column has no
  /// samples.
  void run_forward(StepPlan& plan, const Pass& pass) {
    MicroBatch& micro = micro_batches_[static_cast<std::size_t>(pass.micro_batch)];
    if (pass.chunk == 0) {
      micro.has_samples = plan.batch(pass.micro_batch).size > 0;
      micro.chunks.resize(static_cast<std::size_t>(chunks()));
    }
    const int part = part_of(pass.chunk);
    if (!micro.has_samples || is_last(part)) return;
    const PhaseScope phase(Phase::forward);
    Forwarded& forwarded = micro.chunks[static_cast<std::size_t>(pass.chunk)].emplace();
    forwarded.inputs = inputs_of(part, plan.batch(pass.micro_batch));
    const Carry outputs = run_blocks(part, forwarded.inputs);
    send_carry(part + 1, outputs);
    forwarded.outputs = outputs.tensors;
  }

  /// The last part's forward pass, up to the loss.
  StepOutput run_last_part(const MicroStep& micro, std::optional<Forwarded>& forwarded) {
    if (micro.batch.size == 0) return {};
    Carry inputs = inputs_of(static_cast<int>(parts_.size()) - 1, micro.batch);
    const LastPart runner(*module_, parts_.back(), inputs);
    StepOutput output = forward_step(*module_, micro.batch, micro.batch_idx, *context_);
    forwarded = Forwarded{.inputs = std::move(inputs), .outputs = {}};
    if (output.loss.defined())
      forwarded->outputs = {scaled_loss(output.loss, micro.loss_weight, micro.scaler)};
    return detached(std::move(output));
  }

  /// The first backward pass of a micro-batch on this rank, which is that of the highest chunk, brings the
  /// loss: the hooks of the micro-batch run around it.
  void run_backward(StepPlan& plan, const Pass& pass, StepResult& result) {
    // All stages begin a micro-batch at the same place of the schedule: a validation may come before it.
    const MicroStep* const micro = pass.chunk == chunks() - 1 ? plan.next() : nullptr;
    const int part = part_of(pass.chunk);
    const PhaseScope phase(is_last(part) ? Phase::forward : Phase::backward);
    MicroBatch& micro_batch = micro_batches_[static_cast<std::size_t>(pass.micro_batch)];
    std::optional<Forwarded> forwarded;
    forwarded.swap(micro_batch.chunks[static_cast<std::size_t>(pass.chunk)]);
    StepOutput output;
    std::vector<at::Tensor> gradients;
    if (is_last(part)) {
      output = run_last_part(*micro, forwarded);
      if (output.loss.defined()) gradients = {at::ones_like(forwarded->outputs.front())};
    } else if (forwarded) {
      Received received = receive_gradients(part);
      output.loss = std::move(received.loss);
      gradients = std::move(received.gradients);
    }
    const at::Tensor loss = output.loss;

    PhaseClock::enter(Phase::backward);
    if (micro != nullptr) {
      if (micro->first) {
        micro->observer.before_zero_grad();
        exchanges().front()->zero_gradients();
      }
      if (loss.defined()) micro->observer.before_backward(loss);
    }
    if (loss.defined()) backward(*forwarded, gradients, micro_batch);
    if (micro != nullptr && loss.defined()) micro->observer.after_backward();
    if (forwarded && part > 0) send_gradients(part, loss, forwarded->inputs);
    if (micro == nullptr) return;
    result.add(*micro, loss);
    plan.end(std::move(output));
  }

  void run_weights(const Pass& pass) {
    const PhaseScope phase(Phase::backward);
    std::optional<SplitBackward> rest;
    rest.swap(micro_batches_[static_cast<std::size_t>(pass.micro_batch)].weights);
    if (rest) rest->run_rest();
  }

  /// Runs all parts of this rank before the model's last part; returns the inputs of the last part on the
  /// rank that has it.
  Carry run_without_gradients(const Batch& batch) {
    constexpr std::size_t kAhead = 2;  // messages: a fast stage does not fill the memory of a slow one
    for (int chunk = 0; chunk < chunks(); ++chunk) {
      const int part = part_of(chunk);
      Carry inputs = inputs_of(part, batch);
      if (is_last(part)) return inputs;
      send_carry(part + 1, run_blocks(part, std::move(inputs)));
      messages_->wait_for_all_but(kAhead, tag(part + 1, Message::carry_without_gradients));
    }
    return {};
  }

  /// Runs `step` on the rank with the last part. The first call of a method finds out whether the model
  /// defines the method, before any stage works ahead.
  at::Tensor evaluate(const char* stage, const char* method, const Batch& batch,
                      const std::function<at::Tensor()>& step) {
    if (in_step_ && chunks() > 1)
      throw TrainingError(
          "a validation began in the middle of a step, in which stages of an interleaved pipeline are at "
          "different micro-batches; make val_check_interval a multiple of accumulate_grad_batches, or use "
          "--strategy.schedule 1f1b");
    const EvaluationGuard guard(context_->options.trainer.inference_mode);
    Carry inputs = run_without_gradients(batch);
    const bool first = defined_.insert(method).second && grid_.stages > 1;
    const int answers = first_free_tag() + static_cast<int>(model_->tied().size());
    if (!has_last_part()) {
      const bool defined =
          !first || messages_->receive(rank_of(static_cast<int>(parts_.size()) - 1), answers).size() == 1;
      if (defined) return {};
      defined_.erase(method);
      throw StepNotDefined(stage, method);
    }
    const auto tell = [&](std::size_t tensors) {
      const std::vector<at::Tensor> message(tensors);
      for (int other = 0; first && other + 1 < grid_.stages; ++other)
        messages_->send(message, grid_.rank_of(other), answers);
    };
    const LastPart runner(*module_, parts_.back(), std::move(inputs));
    try {
      at::Tensor result = step();
      tell(1);
      return result;
    } catch (const StepNotDefined&) {
      defined_.erase(method);
      tell(0);
      throw;
    }
  }

  const PipelineArgs args_;
  PipelineGrid grid_;
  Blocks* blocks_ = nullptr;
  std::vector<BlockRange> parts_;  ///< of the whole model
  std::optional<StageModel> model_;
  std::unique_ptr<Communicator> world_, column_, stage_;
  std::unique_ptr<RankMessages> messages_;
  bool whole_at_start_ = true;     ///< every rank had the whole model when it connected
  std::set<std::string> defined_;  ///< methods that the model defines, as far as this rank has asked

  std::vector<Pass> passes_;      ///< of a step of this stage
  std::int64_t planned_for_ = 0;  ///< micro-batches of this step

  // The step under way.
  std::vector<MicroBatch> micro_batches_;
  bool in_step_ = false;
};

}  // namespace

std::vector<RankMemory> pipeline_memory(const Plan& plan, const ModelOutline& model) {
  const auto args = read_args<PipelineArgs>(plan.strategy_arguments);
  const int stages = shape_of(plan).stages, columns = plan.world_size / stages;
  Blocks& chain = blocks_of_chain(model.module);
  const std::vector<BlockRange> parts = parts_of_chain(chain, args, stages);
  const RankMemory buffers = memory_of_tensors(model.module.all_buffers());
  const std::set<std::string> untrained = untrained_parameters(model.module, model.targets);
  std::vector<RankMemory> memory;
  for (int rank = 0; rank < plan.world_size; rank += columns) {
    const StageModel stage(model.module, chain, {.rank = rank, .ranks = plan.world_size, .stages = stages},
                           parts);
    RankMemory own = buffers;
    for (const OptimizerTarget& target : model.targets)
      own += memory_of_training(stage.own(target.parameters), target.optimizer, model.precision);
    // Averages lie in memory of their own beside the gradients of the next step.
    if (columns > 1) own.gradients *= 2;
    for (const NamedTensor& parameter : model.module.all_parameters()) {
      const bool is_untrained = untrained.contains(parameter.name), is_own = stage.is_own(parameter.name);
      if (is_own || is_untrained) own += memory_of_tensors({&parameter, 1});
      if (is_own && is_untrained && parameter.tensor.requires_grad())
        own.gradients += static_cast<std::int64_t>(parameter.tensor.nbytes());
    }
    if (plan.accumulate_grad_batches > 1)
      own.gradients += gradients_in_passing(stage.own(model.module.all_parameters()));
    if (args.shard_optimizer) own.optimizer /= columns;
    memory.insert(memory.end(), static_cast<std::size_t>(columns), own);
  }
  return memory;
}

KeptRanges pipeline_kept(const Plan& plan, const ModelOutline& model, int rank) {
  const auto args = read_args<PipelineArgs>(plan.strategy_arguments);
  const int stages = shape_of(plan).stages;
  Blocks& chain = blocks_of_chain(model.module);
  const StageModel stage(model.module, chain, {.rank = rank, .ranks = plan.world_size, .stages = stages},
                         parts_of_chain(chain, args, stages));
  KeptRanges kept;
  for (const NamedTensor& parameter : model.module.all_parameters()) {
    if (!stage.is_own(parameter.name)) kept.of[parameter.name] = {};
  }
  return kept;
}

std::unique_ptr<Strategy> make_pipeline_strategy(const PipelineArgs& args) {
  return std::make_unique<PipelineStrategy>(args);
}

}  // namespace cxtrain
