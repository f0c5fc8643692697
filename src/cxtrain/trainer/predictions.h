#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cxtrain {

/// The result of a prediction of one loader on one rank, on the CPU.
struct Predictions {
  std::vector<at::Tensor> outputs;  ///< results of `predict_step`, one per batch
  /// Indices of the samples in the dataset, in the order of prediction.
  std::vector<std::int64_t> indices;
};

/// Returns the bytes of a file that `torch.load(file, weights_only=True)` reads in Python: a dictionary of
/// `predictions` and `indices` (int64). `predictions` is one tensor with the samples in dimension 0 if the
/// outputs can be joined so, else a list with one tensor per batch.
std::vector<char> to_pt(const Predictions& predictions);

/// Returns the name of a rank's file: "predictions_rank_3.pt". The prediction of several loaders has a file
/// for each loader: "predictions_rank_3_dataloader_idx_1.pt".
std::string predictions_file(int rank, std::size_t dataloader_idx = 0, std::size_t loaders = 1);

}  // namespace cxtrain
