#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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
#include "cxtrain/precision/grad_scaler.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/state/stateful.h"
#include "cxtrain/strategy/trainable.h"
#include "cxtrain/strategy/trained_parameters.h"

/// How a step is spread over ranks and devices. One plugin each; the fit loop drives them all alike and never
/// asks which it has. All methods are called on every rank, in the same order, from the thread that runs the
/// loop: first `place`, then `connect`, and `teardown` last.
namespace cxtrain {

/// What a strategy works with; everything outlives it.
struct StrategyContext {
  World& world;
  const Plan& plan;
  const Options& options;
  const PrecisionPolicy& precision;
  at::Device device{at::kCPU};            ///< this rank's, or its first
  std::vector<at::Device> devices = {};   ///< all of this rank's
  std::vector<Trainable*> replicas = {};  ///< models like the trained one: `plan.replicas` less one
  Accelerator* accelerator = nullptr;     ///< null on CPUs
};

/// What the loop wants to know between forward and backward, in Lightning's hook order.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void before_zero_grad() = 0;
  virtual void before_backward(const at::Tensor& loss) = 0;
  virtual void after_backward() = 0;
};

/// One micro-batch of an optimizer step.
struct MicroStep {
  const Batch& batch;
  std::int64_t batch_idx = 0;
  bool first = true;  ///< gradients start anew here
  bool last = true;   ///< ... and are complete here
  double loss_weight =
      1;  ///< factor on the loss before backward: 1/micro-batches, and uneven shards evened out
  GradScaler* scaler = nullptr;
  StepObserver& observer;
};

enum class EvaluationStage { validate, test };

class Strategy : public Stateful {
 public:
  static constexpr std::string_view kKind = "strategy";
  using Traits = StrategyTraits;  ///< what a plugin says of its strategy when it registers it

  /// Puts the model on this rank's devices, in the dtypes of the precision. Talks to no other rank; may
  /// refuse, by an Error that the caller agrees on with the other ranks. `module` and `context` outlive the
  /// strategy's last call.
  virtual void place(Trainable& module, const StrategyContext& context) = 0;

  /// Meets the other ranks: gives every rank rank 0's parameters and buffers, and makes what is needed to
  /// exchange gradients. Collective; may block on the other ranks up to their timeout. Throws AgreedError
  /// when the ranks' models differ, CommunicationError.
  virtual void connect() = 0;

  /// The part of every global batch that this rank reads.
  virtual DataShard data_shard() const = 0;

  /// What an optimizer like this one is to train, and how the ranks share the work. May be called again, for
  /// another training of the same model; the result of the call before is gone by then. It ends before
  /// `teardown`. Collective.
  virtual std::unique_ptr<TrainedParameters> prepare(const OptimizerConfig& optimizer) = 0;

  /// Forward and backward of one micro-batch; returns the loss, detached and unscaled. Blocks on other ranks
  /// only where `last`. Returns an undefined tensor, having contributed nothing, where the model skips the
  /// batch or the rank has no sample left (`batch.size` 0).
  virtual at::Tensor training_step(const MicroStep& step) = 0;

  // All ranks call the following three for every batch of a loader, so that a strategy may meet the other
  // ranks in them. On a rank that has no sample left (`batch.size` 0) the model's step is not called.

  /// A forward pass of `training_step` in training mode, with neither gradients nor logged values: for what
  /// layers learn from seeing data (batch norm's statistics). Blocks on other ranks where batch norm is
  /// synchronised.
  virtual void forward(const Batch& batch, std::int64_t batch_idx) = 0;

  /// `validation_step` or `test_step` of the model.
  virtual void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) = 0;
  /// `predict_step` of the model; undefined where this rank has no sample.
  virtual at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) = 0;

  /// Brings the buffers to agreement over the ranks, as after a step: forward passes that no step followed
  /// have left each rank with its own. Collective.
  virtual void agree_on_buffers() {}

  /// Shows every parameter and buffer of the model as a whole, one at a time, in the order of their names, to
  /// every rank. `visit` must not keep the tensor, or write to it. Collective.
  virtual void visit_whole(const std::function<void(const NamedTensor&)>& visit) = 0;

  /// Whether each rank keeps a whole model of its own between two steps. Where it does not, `visit_whole`
  /// shows every rank the same tensors, and whether ranks have drifted apart cannot be seen by comparing
  /// them.
  virtual bool ranks_keep_whole_models() const { return true; }

  /// What a strategy remembers of the steps besides the model, where that decides about bits. Called between
  /// `prepare` and the first step that follows, and after any step.
  std::string state_key() const override { return "strategy"; }
  void save(StateDict& /*state*/) const override {}
  void load(const StateDict& /*state*/) override {}

  /// For the log: how gradients travel.
  virtual std::string describe() const = 0;

  /// Gives every rank the whole model back, and lets go of it and of everything collective. Collective.
  virtual void teardown() {}
};

/// SHA-256 over the bytes of every parameter and buffer of the strategy's model, contiguous, in the order of
/// their names. Copies what is on a GPU to the host. Collective.
std::string parameters_sha256(Strategy& strategy);

}  // namespace cxtrain
