#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "cxtrain/state/state_dict.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// What training changes in a model, to be put back after a trial: what is trained, buffers, and the random
/// generators. Costs as much memory as this rank's part of the model.
class ModelSnapshot {
 public:
  /// Both outlive it.
  ModelSnapshot(const TrainContext::Parts& parts, Optimization& optimization);

  /// Collective.
  void restore() const;

 private:
  const TrainContext::Parts parts_;
  Optimization& optimization_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  ///< the tensor, its values
  StateDict generators_;
};

}  // namespace cxtrain
