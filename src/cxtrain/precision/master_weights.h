#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <span>
#include <vector>

#include "cxtrain/precision/policy.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Returns whether the optimizer updates a float32 copy of this parameter.
inline bool has_master(const at::Tensor& parameter, const PrecisionPolicy& precision) {
  return precision.master_weights && c10::elementSize(parameter.scalar_type()) < 4;
}

/// The parameters as the optimizer sees them. If the precision keeps master weights (AMP's O2), each 16-bit
/// parameter has a float32 copy that the optimizer updates. Steps smaller than the parameter's last bit then
/// add up instead of being rounded away (Micikevicius et al. 2018, section 3.1). Every other parameter is its
/// own master, at no cost.
class MasterWeights {
 public:
  MasterWeights() = default;
  /// `parameters`: all parameters that training may update at any time, placed, with the values that training
  /// starts from.
  MasterWeights(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision);

  /// The tensors that the optimizer updates, under the parameters' names and in their order.
  const std::vector<NamedTensor>& parameters() const noexcept { return masters_; }

  /// Gives the masters the parameters' gradients, in float32 and before they are unscaled. Called after
  /// backward.
  void take_gradients();
  /// The gradient of each master, in the masters' order; undefined if there is none. The list keeps its
  /// address.
  std::span<const at::Tensor> gradients() const noexcept { return gradients_; }
  /// Releases the gradients, so that the next backward may write to their memory.
  void forget_gradients() { std::fill(gradients_.begin(), gradients_.end(), at::Tensor()); }

  /// Rounds the masters into the parameters. Called after the optimizer's step.
  void write_back();

 private:
  std::vector<NamedTensor> masters_;
  std::vector<at::Tensor> gradients_;

  /// The masters that differ from their parameter, of one dtype and device: ATen copies a list at once if all
  /// its tensors are alike.
  struct Pairs {
    std::vector<at::Tensor> rounded;  ///< the model's parameters
    std::vector<at::Tensor> precise;  ///< their masters
  };
  std::vector<Pairs> pairs_;
};

}  // namespace cxtrain
