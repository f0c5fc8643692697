#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cxtrain/data/data_loader.h"
#include "cxtrain/trainer/predictions.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// Runs a validation or a test over the loaders, `batches[i]` batches of `loaders[i]`: gradients off, module
/// in evaluation mode (and each layer back in the mode it was in). Returns the epoch's metrics, reduced over
/// all ranks; those of several loaders have the suffix "/dataloader_idx_I". A model that does not define the
/// step ends the evaluation at its first batch: null then, on every rank. Throws Interrupted where a rank has
/// a reason to leave (`TrainContext::leave_if_asked`). Collective.
std::optional<MetricStore::Values> evaluate(TrainContext& context, EvaluationStage stage,
                                            std::span<const std::unique_ptr<DataLoader>> loaders,
                                            std::span<const std::int64_t> batches, bool saves_state);

/// Runs predict_step over the loaders, like `evaluate`. Each rank gets its own shard's outputs of each
/// loader, on the CPU, in order. Throws StepNotDefined, on all ranks alike, if the model does not define the
/// step. Collective.
std::vector<Predictions> predict(TrainContext& context, std::span<const std::unique_ptr<DataLoader>> loaders,
                                 std::span<const std::int64_t> batches);

}  // namespace cxtrain
