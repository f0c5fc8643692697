#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cxtrain/precision/grad_scaler.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/step.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

class TrainedOptimizer;

/// An operation of manual optimization, which a rank announces to a rank without a sample.
enum class ManualOperation {
  minimize,
  backward,
  zero_grad,
  step,
  gradients,
  clip_by_norm,
  clip_by_value,
  end
};

/// What the optimizers of a fit share: the micro-batch in progress, the loss scale, and, in manual
/// optimization, the operations in which a rank without a sample takes part. Nothing here waits for the
/// device.
class SharedStep {
 public:
  /// The context and the optimizers outlive this object; the fit may still add optimizers.
  SharedStep(TrainContext& context, const std::vector<std::unique_ptr<TrainedOptimizer>>& optimizers,
             std::int64_t accumulate, const PrecisionPolicy& precision);

  /// While this lives, ranks with samples and without do the same, and nothing is announced: what hooks call
  /// is called on all ranks.
  class OnAllRanks {
   public:
    explicit OnAllRanks(SharedStep& shared)
        : shared_(shared), before_(std::exchange(shared.announces_, false)) {}
    ~OnAllRanks() { shared_.announces_ = before_; }
    OnAllRanks(const OnAllRanks&) = delete;
    OnAllRanks& operator=(const OnAllRanks&) = delete;

   private:
    SharedStep& shared_;
    const bool before_;
  };

  bool is_manual() const { return manual_; }
  const PrecisionPolicy& precision() const { return precision_; }
  /// The loss scale; null without one.
  GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  const GradScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }

  /// Begins a micro-batch, which outlives `end`. `uneven`: at least one rank has no sample of it; in manual
  /// optimization that rank takes part in the operations of the others here.
  void begin(const MicroStep& micro, bool uneven);
  void end();
  bool in_training_step() const { return micro_ != nullptr; }
  /// The micro-batch in progress. Throws TrainingError if there is none.
  const MicroStep& micro() const;

  /// Begins an operation of manual optimization. Throws TrainingError if the model is in automatic
  /// optimization, outside of a micro-batch, or accumulates gradients by itself.
  void begin_manual(const TrainedOptimizer& optimizer, ManualOperation operation);
  /// If a rank without a sample follows, announces the operation to the rank. `optimizer`: its index.
  /// `limit`: of a clip.
  void announce(std::size_t optimizer, ManualOperation operation, double limit = 0);
  bool accumulates() const { return accumulate_ > 1; }
  /// Parameters of the other optimizers that require a gradient.
  std::vector<at::Tensor> trained_by_others(const TrainedOptimizer& optimizer) const;

  void note_update() { updated_ = true; }
  /// Returns whether an optimizer has updated its parameters since the last call.
  bool take_updated() { return std::exchange(updated_, false); }

 private:
  void follow();

  TrainContext& context_;
  const std::vector<std::unique_ptr<TrainedOptimizer>>& optimizers_;
  const std::int64_t accumulate_;
  PrecisionPolicy precision_;
  bool manual_;
  std::optional<GradScaler> scaler_;
  const MicroStep* micro_ = nullptr;  ///< in progress
  bool announces_ = false;            ///< a rank without a sample follows
  bool updated_ = false;              ///< since `take_updated`
};

}  // namespace cxtrain
