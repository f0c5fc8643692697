#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <span>
#include <vector>

#include "cxtrain/precision/policy.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// The parameters as the optimizer sees them. Where the precision keeps master weights (AMP's O2), each
/// 16-bit parameter has a float32 copy that the optimizer updates, so that steps smaller than the parameter's
/// last bit add up instead of being rounded away (Micikevicius et al. 2018, section 3.1). Every other
/// parameter is its own master, and nothing here costs anything.
class MasterWeights {
 public:
  MasterWeights() = default;
  /// `parameters`: those that may come to be trained, placed, with the values that training starts from.
  MasterWeights(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision);

  /// What the optimizer updates, under the parameters' names and in their order.
  const std::vector<NamedTensor>& parameters() const noexcept { return masters_; }

  /// After backward: gives the masters the parameters' gradients, in float32 and before they are unscaled.
  void take_gradients();
  /// The gradient of each, in their order; undefined where there is none. The list stays where it is.
  std::span<const at::Tensor> gradients() const noexcept { return gradients_; }
  /// Lets go of the gradients, so that the next backward may write where they are.
  void forget_gradients() { std::fill(gradients_.begin(), gradients_.end(), at::Tensor()); }

  /// After the optimizer's step: rounds the masters into the parameters.
  void write_back();

 private:
  std::vector<NamedTensor> masters_;
  std::vector<at::Tensor> gradients_;

  /// Those that differ from their parameter, of one dtype and device: ATen copies a list at once where all
  /// its tensors are alike.
  struct Pairs {
    std::vector<at::Tensor> rounded;  ///< the model's
    std::vector<at::Tensor> precise;  ///< their masters
  };
  std::vector<Pairs> pairs_;
};

}  // namespace cxtrain
