#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <span>
#include <vector>

namespace cxtrain {

/// A backward pass in two parts (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): first the gradients of
/// the inputs, which another stage waits for, later the gradients of the parameters, which nobody waits for.
/// The gradients have the bits of one backward pass. A function of the graph that has both an input and a
/// parameter behind it runs twice, each time for one of them.
class SplitBackward {
 public:
  /// Runs backward from `outputs` with the gradients `gradients`, and sets `grad()` of each of the `inputs`,
  /// which are leaves. Frees the part of the graph that leads to inputs only.
  SplitBackward(std::span<const at::Tensor> outputs, std::span<const at::Tensor> gradients,
                std::span<const at::Tensor> inputs);

  /// Adds the gradients of all other leaves to their `grad()`, and frees the graph. Called once.
  void run_rest();

 private:
  // Where the rest begins: edges of the graph, and the gradients that flow along them.
  std::vector<torch::autograd::Edge> edges_;
  std::vector<at::Tensor> gradients_;
};

}  // namespace cxtrain
