#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "cxtrain/data/batch.h"
#include "cxtrain/precision/grad_scaler.h"
#include "cxtrain/strategy/step_output.h"

/// An optimizer step between the fit loop and a strategy: the loop plans its micro-batches, the strategy runs
/// them.
namespace cxtrain {

/// The loop's hooks between forward and backward, in Lightning's order.
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
  bool first = true;  ///< the step's gradients start here
  bool last = true;   ///< ... and are complete here
  /// Factor on the loss before backward: 1/micro-batches, with a correction for uneven shards.
  double loss_weight = 1;
  GradScaler* scaler = nullptr;
  StepObserver& observer;
};

/// The micro-batches of one optimizer step, in their order.
class StepPlan {
 public:
  virtual ~StepPlan() = default;
  /// Number of micro-batches.
  virtual std::int64_t size() const = 0;
  /// Returns the batch of micro-batch i, counted from the first one of the step, before `next` has begun the
  /// micro-batch. Reads ahead. The result is valid up to the next call of any method.
  virtual const Batch& batch(std::int64_t i) = 0;
  /// Begins the next micro-batch, with the hooks before it; returns null after the last. The result is valid
  /// up to the next call.
  virtual const MicroStep* next() = 0;
  /// Ends the micro-batch, which has this output, without gradients.
  virtual void end(StepOutput output) = 0;
};

/// A step of one micro-batch, which outlives the plan.
class OneMicroStep final : public StepPlan {
 public:
  explicit OneMicroStep(const MicroStep& micro) : batch_(micro.batch), micro_(&micro) {}
  std::int64_t size() const override { return 1; }
  const Batch& batch(std::int64_t /*i*/) override { return batch_; }
  const MicroStep* next() override { return std::exchange(micro_, nullptr); }
  void end(StepOutput output) override { loss = std::move(output.loss); }

  at::Tensor loss;  ///< after the step; detached

 private:
  const Batch& batch_;
  const MicroStep* micro_;
};

/// What a rank put into an optimizer step. Of all ranks: what at least one rank put into the step.
struct StepResult {
  bool loss = false;     ///< the loss of at least one micro-batch
  bool skipped = false;  ///< samples, but no loss: the model skipped them
  /// Sum of the loss weights of this rank's micro-batches with samples; not combined over the ranks.
  double weight = 0;

  /// Adds the loss of a micro-batch; undefined: there was none.
  void add(const MicroStep& micro, const at::Tensor& micro_loss) {
    loss = loss || micro_loss.defined();
    skipped = !loss && (skipped || micro.batch.size > 0);
    if (micro.batch.size > 0) weight += micro.loss_weight;
  }
};

}  // namespace cxtrain
