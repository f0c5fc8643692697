#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_traits.h"
#include "cxtrain/data/batch.h"
#include "cxtrain/optim/setup.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/reduce/comm_hook.h"
#include "cxtrain/state/stateful.h"
#include "cxtrain/strategy/step.h"
#include "cxtrain/strategy/trainable.h"
#include "cxtrain/strategy/trained_parameters.h"

/// Strategies: how a step is spread over ranks and devices. Each strategy is a plugin; the fit loop treats
/// all strategies alike. All methods are called on every rank, in the same order, from the thread that runs
/// the loop: first `place`, then `connect`, and `teardown` last.
namespace cxtrain {

/// The inputs of a strategy; all of them outlive it.
struct StrategyContext {
  World& world;
  const Plan& plan;
  const Options& options;
  const PrecisionPolicy& precision;
  at::Device device{at::kCPU};            ///< this rank's device, or its first device
  std::vector<at::Device> devices = {};   ///< all devices of this rank
  std::vector<Trainable*> replicas = {};  ///< models like the trained one: `plan.replicas` less one
  Accelerator* accelerator = nullptr;     ///< null on CPUs
  /// Makes the hook of `Plan::comm_hook`; empty: the plan names none.
  std::function<std::unique_ptr<CommHook>()> make_comm_hook = {};
};

/// Who runs the backward passes of a training. `together`: the strategy runs one backward of the loss of
/// `training_step`, for the parameters of all optimizers. `apart`: the model runs a backward for each
/// optimizer, within `training_step` (manual optimization).
enum class Backward { together, apart };

/// What one optimizer trains.
struct OptimizerTarget {
  const OptimizerConfig& optimizer;
  std::vector<NamedTensor> parameters;  ///< of the placed model; also frozen ones
};

enum class EvaluationStage { validate, test };

class Strategy : public Stateful {
 public:
  static constexpr std::string_view kKind = "strategy";
  using Interface = Strategy;
  using Traits = StrategyTraits;  ///< a plugin passes them with its strategy when it registers it

  /// Puts the model on this rank's devices, in the dtypes of the precision. Must not communicate with other
  /// ranks. May throw an Error, on which the caller agrees with the other ranks. `module` and `context` must
  /// outlive the strategy's last call.
  virtual void place(Trainable& module, const StrategyContext& context) = 0;

  /// Connects to the other ranks: gives every rank rank 0's parameters and buffers, and prepares the exchange
  /// of gradients. Collective; may block on the other ranks up to their timeout. Throws AgreedError if the
  /// ranks' models differ, and CommunicationError.
  virtual void connect() = 0;

  /// Returns the shard of every global batch that this rank reads.
  virtual DataShard data_shard() const = 0;

  /// Prepares a training by these optimizers, at least one. Returns, for each optimizer, its parameters as
  /// they lie on the ranks. May be called again for another training of the model. Destroy the previous
  /// result before the call, and the last result before `teardown`. Throws ConfigError, on all ranks alike,
  /// if the strategy cannot train in this way. Collective.
  virtual std::vector<std::unique_ptr<TrainedParameters>> prepare(const std::vector<OptimizerTarget>& targets,
                                                                  Backward backward) = 0;

  /// Runs forward and backward of each micro-batch of an optimizer step, and returns what this rank put into
  /// the step; ranks that share the samples of a shard return an equal result. May block on other ranks. A
  /// micro-batch contributes nothing if the model skips it or the rank
  /// has no sample left (`batch.size` 0). After `prepare` with `Backward::apart` the model runs the backward
  /// passes, the losses need no gradient, and the result is empty. The gradients of the step are complete
  /// after `TrainedParameters::synchronize`.
  virtual StepResult step(StepPlan& plan) = 0;

  // All ranks call the following three methods for every batch of a loader, so that a strategy may
  // communicate in them. On a rank that has no sample left (`batch.size` 0) the model's step is not called.
  // If ranks share the samples of a shard (`data_shard`), one of them may run the model's step for all.

  /// Runs a forward pass of `training_step` in training mode, with neither gradients nor logged values.
  /// Layers may learn from the data (batch norm's statistics). Blocks on other ranks if batch norm is
  /// synchronised.
  virtual void forward(const Batch& batch, std::int64_t batch_idx) = 0;

  /// Runs `validation_step` or `test_step` of the model.
  virtual void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) = 0;
  /// Runs `predict_step` of the model; returns undefined if this rank has no sample, or another rank that
  /// reads the same samples has the output.
  virtual at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) = 0;

  /// Joins the tensors of all ranks in dimension 0, in rank order, for a step of the model
  /// (`Module::all_gather`). `gradients`: backward reaches the tensors of all ranks. Every rank has a sample.
  /// Collective. A strategy of several ranks that cannot throws TrainingError.
  virtual at::Tensor all_gather(const at::Tensor& own, bool gradients);

  /// Makes the buffers equal on all ranks, as after a step: after forward passes without a step, each rank
  /// has its own buffers. Collective.
  virtual void agree_on_buffers() {}
  /// After forward passes without a step: gives this rank the buffers of the layers that other ranks have run
  /// for the samples of this rank. Collective.
  virtual void complete_buffers() {}

  /// Shows every parameter and buffer of the model as a whole, one at a time, in the order of their names, to
  /// every rank. `visit` must not keep the tensor, or write to it. Collective.
  virtual void visit_whole(const std::function<void(const NamedTensor&)>& visit) = 0;

  /// Returns whether ranks update the parameters apart for several steps (`TrainedParameters::unite`).
  virtual bool ranks_update_apart() const { return false; }

  /// Returns whether each rank keeps a whole model of its own between two steps. If false, `visit_whole`
  /// shows equal tensors to every rank, and a comparison of these tensors cannot show that ranks have drifted
  /// apart.
  virtual bool ranks_keep_whole_models() const { return true; }
  /// Returns the whole parameters and buffers that this rank has, or gets now, for a checkpoint. At least one
  /// rank has each tensor; which ranks have it never changes. The values are valid until the next step.
  /// Collective.
  virtual std::vector<NamedTensor> whole_tensors() = 0;

  /// The state of a strategy besides the model, if it affects the bits of the steps. Called between `prepare`
  /// and the first step after it, and after any step.
  std::string state_key() const override { return "strategy"; }
  void save(StateDict& /*state*/) const override {}
  void load(const StateDict& /*state*/) override {}

  /// Describes, for the log, how gradients travel.
  virtual std::string describe() const = 0;

  /// Gives the whole model back to every rank, unless the ranks had parts of it from the start, and releases
  /// it and everything collective. Collective.
  virtual void teardown() {}
};

/// Returns SHA-256 over the bytes of every parameter and buffer of the strategy's model, contiguous, in the
/// order of their names. Copies tensors on a GPU to the host. Collective.
std::string parameters_sha256(Strategy& strategy);

}  // namespace cxtrain
