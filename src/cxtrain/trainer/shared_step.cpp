#include "cxtrain/trainer/shared_step.h"

#include <string>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/error.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/trainer/trained_optimizer.h"

namespace cxtrain {
namespace {

/// What a rank with samples does next, for a rank without samples.
struct Announcement {
  int operation = 0;  ///< a `ManualOperation`
  std::size_t optimizer = 0;
  double limit = 0;

  void fields(auto&& field) { CXTRAIN_EACH(field, operation, optimizer, limit); }
  bool operator==(const Announcement&) const = default;
};

}  // namespace

SharedStep::SharedStep(TrainContext& context,
                       const std::vector<std::unique_ptr<TrainedOptimizer>>& optimizers,
                       std::int64_t accumulate, const PrecisionPolicy& precision)
    : context_(context),
      optimizers_(optimizers),
      accumulate_(accumulate),
      precision_(precision),
      manual_(!context.parts.module.automatic_optimization) {
  if (precision.scale_gradients) scaler_.emplace(context.parts.device);
}

void SharedStep::begin(const MicroStep& micro, bool uneven) {
  micro_ = &micro;
  announces_ = manual_ && uneven;
  if (announces_ && micro.batch.size == 0) follow();
}

void SharedStep::end() {
  announce(0, ManualOperation::end);
  announces_ = false;
  micro_ = nullptr;
}

const MicroStep& SharedStep::micro() const {
  if (micro_ == nullptr)
    throw TrainingError(
        "an optimizer was called outside of training_step; in manual optimization only "
        "training_step may call minimize(), zero_grad(), manual_backward() and step()");
  return *micro_;
}

void SharedStep::begin_manual(const TrainedOptimizer& optimizer, ManualOperation operation) {
  micro();
  if (!manual_) {
    throw TrainingError("training_step calls optimizer `" + optimizer.name() +
                        "` itself, in automatic optimization; set automatic_optimization to false in the "
                        "constructor of the model");
  }
  if (operation != ManualOperation::minimize && accumulate_ > 1) {
    throw TrainingError("optimizer `" + optimizer.name() +
                        "`: zero_grad() and step() do not know accumulate_grad_batches, which is " +
                        std::to_string(accumulate_) + "; use minimize(), or accumulate in training_step");
  }
  announce(optimizer.index(), operation);
}

/// Rank 0 has samples of every batch.
void SharedStep::announce(std::size_t optimizer, ManualOperation operation, double limit) {
  if (!announces_ || micro().batch.size == 0) return;
  const Announcement own{static_cast<int>(operation), optimizer, limit};
  if (broadcast_value(context_.parts.world, own) == own) return;
  throw TrainingError(
      "training_step of this rank and of rank 0 call different methods of optimizers, or clip at different "
      "limits; in manual optimization every rank calls the same methods in the same order");
}

void SharedStep::follow() {
  for (;;) {
    const Announcement announced = broadcast_value(context_.parts.world, Announcement{});
    const auto operation = static_cast<ManualOperation>(announced.operation);
    if (operation == ManualOperation::end) return;
    optimizers_.at(announced.optimizer)->follow(operation, announced.limit);
  }
}

std::vector<at::Tensor> SharedStep::trained_by_others(const TrainedOptimizer& optimizer) const {
  std::vector<at::Tensor> others;
  for (const auto& other : optimizers_) {
    if (other.get() == &optimizer) continue;
    for (const NamedTensor& parameter : other->parameters()) {
      if (parameter.tensor.requires_grad()) others.push_back(parameter.tensor);
    }
  }
  return others;
}

}  // namespace cxtrain
