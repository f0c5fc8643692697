#pragma once

#include <vector>

#include "cxtrain/optim/setup.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Memory that a training takes on a rank beside the parameters and activations.
struct TrainingBytes {
  double gradients = 0;
  double state = 0;  ///< of the optimizers, and master weights

  double total() const { return gradients + state; }
  TrainingBytes& operator+=(const TrainingBytes& other);
  /// Returns the bytes of one rank if these numbers of ranks divide the gradients and the state.
  TrainingBytes divided(int gradients_among, int state_among) const;
};

/// Returns the bytes for parameters that one optimizer trains as a whole: those that require a gradient now.
/// Adam and AdamW have 8 bytes of state for each parameter, 12 with amsgrad; SGD has 4 with momentum, else
/// none. An optimizer of LibTorch counts as 8.
TrainingBytes training_bytes(const std::vector<NamedTensor>& parameters, const OptimizerConfig& optimizer,
                             const PrecisionPolicy& precision);

}  // namespace cxtrain
