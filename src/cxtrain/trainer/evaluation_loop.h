#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <string>
#include <vector>

#include "cxtrain/data/data_loader.h"
#include "cxtrain/trainer/run.h"

namespace cxtrain {

/// What a prediction gave on one rank, on the CPU.
struct Predictions {
  std::vector<at::Tensor> outputs;  ///< of `predict_step`, one for each batch
  std::vector<std::int64_t>
      indices;  ///< of the samples, in the dataset, in the order in which they were predicted
};

/// As bytes of a file that `torch.load(file, weights_only=True)` reads in Python: a dictionary of
/// `predictions` (one tensor, whose dimension 0 counts the samples, where the outputs can be joined so; else
/// a list with one tensor for each batch) and `indices` (int64).
std::vector<char> to_pt(const Predictions& predictions);

/// "predictions_rank_3.pt".
std::string predictions_file(int rank);

/// Runs a validation or a test over `batches` batches of the loader: gradients off, module in evaluation mode
/// (and each layer back in the mode it was in). Returns the epoch's metrics, reduced over all ranks. A model
/// that does not define the step ends the evaluation at its first batch: null then, on every rank.
/// Throws Interrupted where a signal has come. Collective.
std::optional<MetricStore::Values> evaluate(Run& run, EvaluationStage stage, DataLoader& loader,
                                            std::int64_t batches);

/// Runs predict_step over the loader; each rank gets its own shard's outputs, on the CPU, in order. Throws
/// StepNotDefined, on all ranks alike, where the model does not define it. Collective.
Predictions predict(Run& run, DataLoader& loader, std::int64_t batches);

}  // namespace cxtrain
