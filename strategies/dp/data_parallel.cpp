#include "data_parallel.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>
#include <c10/util/StringUtil.h>

#include <map>

#include "batch_chunks.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/strategy/parameter_store.h"
#include "metric_recorder.h"

namespace cxtrain {
namespace {

class DpStrategy final : public Strategy, private GradientExchange {
 public:
  explicit DpStrategy(MakeExchange make_exchange) : make_exchange_(std::move(make_exchange)) {}

  void place(Trainable& module, const StrategyContext& context) override {
    context_ = &context;
    if (context.plan.devices_per_rank > 1) {
      throw ConfigError("trainer.devices_per_rank", "dp keeps a whole replica on each device",
                        "use --strategy ddp with split models", MessageCode::conflicting_options);
    }
    if (context.plan.sync_batchnorm) {
      log_warning(
          "sync_batchnorm has no effect with dp: each replica normalises by its own samples, as in "
          "Lightning; --strategy ddp synchronises");
    }
    std::vector<Trainable*> models{&module};
    models.insert(models.end(), context.replicas.begin(), context.replicas.end());
    std::vector<at::Device> devices = context.devices;
    devices.resize(models.size(), context.device);
    replicas_ = place_replicas(models, devices, context.precision);
    threads_ = std::make_unique<ReplicaThreads>(devices);
    exchange_ = make_exchange_(replicas_, *threads_, context);
  }
  void connect() override {}

  DataShard data_shard() const override { return {}; }
  /// Of the primary.
  std::vector<std::unique_ptr<TrainedParameters>> prepare(const std::vector<OptimizerTarget>& targets,
                                                          Backward backward) override {
    if (backward == Backward::apart) {
      throw ConfigError(
          "strategy", "dp runs training_step on all replicas at once, and an optimizer cannot step within it",
          "use --strategy ddp for a model with manual optimization", MessageCode::conflicting_options);
    }
    return transformed(targets, [this](const OptimizerTarget& target) -> std::unique_ptr<TrainedParameters> {
      return std::make_unique<ParameterStore>(target.parameters, context_->precision,
                                              static_cast<GradientExchange&>(*this));
    });
  }

  StepResult step(StepPlan& plan) override {
    StepResult result;
    while (const MicroStep* const micro = plan.next()) {
      StepOutput output = training_step(*micro);
      result.add(*micro, output.loss);
      plan.end(std::move(output));
    }
    return result;
  }

  /// The primary sees the whole batch: its statistics are those of all replicas' samples.
  void forward(const Batch& batch, std::int64_t batch_idx) override {
    local_forward(*replicas_[0].model, batch, batch_idx, *context_);
  }

  void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) override {
    const std::vector<Batch> chunks = scatter(batch);
    run_logged(other_draws_, chunks, [&](std::size_t i) {
      local_evaluation_step(*replicas_[i].model, stage, chunks[i], batch_idx, *context_);
    });
  }

  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override {
    if (batch.size == 0) return {};
    const std::vector<Batch> chunks = scatter(batch);
    std::vector<at::Tensor> outputs(chunks.size());
    run_logged(other_draws_, chunks, [&](std::size_t i) {
      outputs[i] = local_predict_step(*replicas_[i].model, chunks[i], batch_idx, *context_);
    });
    std::erase_if(outputs, [](const at::Tensor& output) { return !output.defined(); });
    return outputs.empty() ? at::Tensor() : joined(std::move(outputs));
  }

  std::vector<NamedTensor> whole_tensors() override { return all_tensors(*replicas_[0].model); }
  void visit_whole(const std::function<void(const NamedTensor&)>& visit) override {
    visit_all(*replicas_[0].model, visit);
  }
  std::string describe() const override { return exchange_->description(); }

  void teardown() override {
    exchange_.reset();
    threads_.reset();
  }

 private:
  /// What is known of the random numbers that a kind of forward pass draws.
  struct Draws {
    bool ever = false, known = false;
  };

  StepOutput training_step(const MicroStep& step) {
    const PhaseScope phase(Phase::forward);
    const std::vector<Batch> chunks = scatter(step.batch);
    if (step.first) {
      used_ = 0;
      all_had_loss_ = true;
    }
    summed_ = false;  // a hook may have completed the gradients of earlier micro-batches
    used_ = std::max(used_, chunks.size());
    std::vector<StepOutput> outputs(chunks.size());
    run_logged(training_draws_, chunks, [&](std::size_t i) {
      outputs[i] = forward_step(*replicas_[i].model, chunks[i], step.batch_idx, *context_);
    });
    const std::vector<at::Tensor> losses = transformed(outputs, &StepOutput::loss);
    const StepOutput whole{mean_loss(losses, chunks), joined_extras(outputs)};
    PhaseClock::enter(Phase::backward);
    if (step.first) {
      step.observer.before_zero_grad();
      zero_gradients();
    }
    const std::int64_t samples = samples_with_loss(losses, chunks);
    if (samples < step.batch.size) all_had_loss_ = false;
    if (!whole.loss.defined()) return whole;
    step.observer.before_backward(whole.loss);
    threads_->run(chunks.size(), [&](std::size_t i) {
      if (!losses[i].defined()) return;
      const double share = static_cast<double>(chunks[i].size) / static_cast<double>(samples);
      scaled_loss(losses[i], step.loss_weight * share, step.scaler).backward();
    });
    step.observer.after_backward();
    return whole;
  }

  /// On the primary's device, in dimension 0; numbers as a vector.
  at::Tensor joined(std::vector<at::Tensor> parts) const {
    const at::NoGradGuard no_grad;
    for (at::Tensor& part : parts) part = part.to(context_->device, part.scalar_type());
    return parts.front().dim() == 0 ? at::stack(parts) : at::cat(parts);
  }
  std::map<std::string, at::Tensor> joined_extras(const std::vector<StepOutput>& outputs) const {
    std::map<std::string, std::vector<at::Tensor>> parts;
    for (const StepOutput& output : outputs) {
      for (const auto& [name, tensor] : output.extras) {
        if (tensor.defined()) parts[name].push_back(tensor.detach());
      }
    }
    std::map<std::string, at::Tensor> extras;
    for (auto& [name, tensors] : parts) extras[name] = joined(std::move(tensors));
    return extras;
  }

  void complete() override {
    if (std::exchange(summed_, true)) return;
    // A replica that skipped its samples has no gradients, rightly.
    if (all_had_loss_ && !std::exchange(checked_, true)) require_own_gradients({replicas_.data(), used_});
    exchange_->sum_gradients();
  }

  /// The batch's chunks, each on its replica's device, and the replicas ready for a forward pass.
  std::vector<Batch> scatter(const Batch& batch) {
    std::vector<Batch> chunks = chunk_batch(batch, replicas_.size());
    tell_about(batch, chunks.size());
    const std::vector<bool> modes = replicas_[0].model->training_modes();
    take_over_frozen_flags();
    for (std::size_t i = 1; i < chunks.size(); ++i) {
      replicas_[i].model->set_training_modes(modes);
      const auto bring = [&](at::Tensor& tensor) {
        if (tensor.defined())
          tensor = tensor.to(replicas_[i].device, tensor.scalar_type(), /*non_blocking=*/true);
      };
      for (at::Tensor& tensor : chunks[i].tensors) bring(tensor);
      chunks[i].change_object_tensors(bring);
    }
    const std::uint64_t changes = primary_changes();
    if (std::exchange(published_, false) || changes != sent_changes_) {
      exchange_->send_parameters();
      sent_changes_ = changes;
    }
    exchange_->send_buffers(chunks.size());
    return chunks;
  }

  /// A hook may have frozen or unfrozen parameters of the primary.
  void take_over_frozen_flags() {
    for (std::size_t r = 1; r < replicas_.size(); ++r) {
      for (std::size_t i = 0; i < replicas_[r].parameters.size(); ++i) {
        const bool trained = replicas_[0].parameters[i].tensor.requires_grad();
        const at::Tensor& own = replicas_[r].parameters[i].tensor;
        if (own.requires_grad() != trained) own.set_requires_grad(trained);
      }
    }
  }

  /// Grows whenever ATen writes to the primary's parameters: an optimizer's closure, a hook. Not every kernel
  /// counts: what is published is sent in any case.
  std::uint64_t primary_changes() const {
    std::uint64_t changes = 1;
    for (const NamedTensor& parameter : replicas_[0].parameters)
      changes += static_cast<std::uint64_t>(parameter.tensor._version());
    return changes;
  }

  /// Says of the first batch what a user may not expect of how a batch is split.
  void tell_about(const Batch& batch, std::size_t chunks) {
    if (std::exchange(told_, true)) return;
    if (chunks < replicas_.size()) {
      log_warning("dp: a batch of " + std::to_string(batch.size) + " samples makes " +
                  std::to_string(chunks) + " parts: " + std::to_string(chunks) + " of " +
                  std::to_string(replicas_.size()) +
                  " devices are used; --data.batch_size is split between the devices");
    }
    for (std::size_t i = 0; i < batch.tensors.size(); ++i) {
      if (has_samples(batch[i], batch)) continue;
      log_info(c10::str("dp: batch[", i, "] of shape ", batch[i].sizes(), " has no row for each of the ",
                        batch.size, " samples; every replica gets all of it"));
    }
  }

  /// Runs `work` on the replicas that have a chunk; what they log reaches the run's sink afterwards, once.
  void run_logged(Draws& draws, const std::vector<Batch>& chunks,
                  const std::function<void(std::size_t)>& work) {
    std::vector<MetricRecorder> recorders(chunks.size());
    std::vector<MetricSink*> before(chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i)
      before[i] = replicas_[i].model->redirect_log(&recorders[i]);
    const auto give_back = [&] {
      for (std::size_t i = 0; i < chunks.size(); ++i) replicas_[i].model->redirect_log(before[i]);
    };
    try {
      run_alike(draws, chunks.size(), work);
    } catch (...) {
      give_back();
      forget_metrics();
      throw;
    }
    give_back();
    merge_metrics(recorders);
    if (!before.empty() && before[0] != nullptr) {
      log_means(recorders, transformed(chunks, &Batch::size), context_->device, *before[0]);
    }
  }

  /// What the steps of the replicas have added to their metrics goes into the primary's.
  void merge_metrics(std::vector<MetricRecorder>& recorders) {
    const std::vector<Metric*>& primary = replicas_[0].metrics;
    for (std::size_t r = 1; r < recorders.size(); ++r) {
      recorders[r].refer_to(primary);
      for (std::size_t i = 0; i < primary.size(); ++i) {
        primary[i]->merge(*replicas_[r].metrics[i]);
        replicas_[r].metrics[i]->reset();
      }
    }
  }

  /// Of a step that failed.
  void forget_metrics() {
    for (std::size_t r = 1; r < replicas_.size(); ++r) {
      for (Metric* metric : replicas_[r].metrics) metric->reset();
    }
  }

  /// Replicas on a GPU draw random numbers from its generator, those on the processor all from one. Where
  /// they do, they take turns: each then gets the same numbers whenever the same training is run. The first
  /// pass tells whether that is needed.
  void run_alike(Draws& draws, std::size_t count, const std::function<void(std::size_t)>& work) {
    if (count < 2 || !context_->device.is_cpu()) return threads_->run(count, work);
    const at::Generator& generator = at::globalContext().defaultGenerator(at::kCPU);
    const at::Tensor before = generator.get_state();
    const bool in_turns = draws.ever || !draws.known;
    if (in_turns) {
      threads_->run_in_turns(count, work);
    } else {
      threads_->run(count, work);
    }
    draws.known = true;
    if (draws.ever || at::equal(before, generator.get_state())) return;
    draws.ever = true;
    if (in_turns) return;
    log_warning(
        "dp: a forward pass has begun to draw random numbers, and this once its replicas did so in no fixed "
        "order; from now on they take turns");
  }

  /// Of the chunks that were not skipped.
  static std::int64_t samples_with_loss(const std::vector<at::Tensor>& losses,
                                        const std::vector<Batch>& chunks) {
    std::int64_t samples = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) samples += losses[i].defined() ? chunks[i].size : 0;
    return samples;
  }

  /// The mean over samples, detached, on the primary's device; undefined where no chunk has a loss.
  at::Tensor mean_loss(const std::vector<at::Tensor>& losses, const std::vector<Batch>& chunks) const {
    const at::NoGradGuard no_grad;
    const std::int64_t samples = samples_with_loss(losses, chunks);
    at::Tensor mean;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      if (!losses[i].defined()) continue;
      const double share = static_cast<double>(chunks[i].size) / static_cast<double>(samples);
      const at::Tensor part =
          losses[i].detach().to(context_->device, losses[i].scalar_type(), /*non_blocking=*/true).mul(share);
      mean = mean.defined() ? mean.add(part) : part;
    }
    return mean;
  }

  void bring_buffers() override { published_ = true; }
  void zero_gradients() override {
    summed_ = false;
    for (Replica& replica : replicas_) {
      for (NamedTensor& parameter : replica.parameters) parameter.tensor.mutable_grad().reset();
    }
  }

  const MakeExchange make_exchange_;
  const StrategyContext* context_ = nullptr;
  std::vector<Replica> replicas_;
  std::unique_ptr<ReplicaThreads> threads_;
  std::unique_ptr<ReplicaExchange> exchange_;
  std::uint64_t sent_changes_ = 0;  ///< of the parameters, when they last went to the replicas
  bool published_ = false;          ///< the parameters, since then
  std::size_t used_ = 0;            ///< replicas that had samples since the gradients were forgotten
  bool summed_ = false;             ///< the gradients of this step
  bool all_had_loss_ = true;        ///< of the replicas that had samples
  Draws training_draws_, other_draws_;
  bool checked_ = false, told_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_dp_strategy(MakeExchange make_exchange) {
  return std::make_unique<DpStrategy>(std::move(make_exchange));
}

}  // namespace cxtrain
