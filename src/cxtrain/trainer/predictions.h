#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cxtrain {

/// The result of a prediction on one rank, on the CPU.
struct Predictions {
  std::vector<at::Tensor> outputs;  ///< results of `predict_step`, one per batch
  /// Indices of the samples in the dataset, in the order of prediction.
  std::vector<std::int64_t> indices;
};

/// Returns the bytes of a file that `torch.load(file, weights_only=True)` reads in Python: a dictionary of
/// `predictions` and `indices` (int64). `predictions` is one tensor with the samples in dimension 0 if the
/// outputs can be joined so, else a list with one tensor per batch.
std::vector<char> to_pt(const Predictions& predictions);

/// Returns the name of a rank's file: "predictions_rank_3.pt".
std::string predictions_file(int rank);

}  // namespace cxtrain
