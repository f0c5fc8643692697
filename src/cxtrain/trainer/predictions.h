#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace cxtrain
