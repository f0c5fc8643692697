#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "cxtrain/trainer/run.h"

namespace cxtrain {

/// What training changes in a model, to be put back after a trial: parameters, buffers, the optimizer's
/// copies of parameters, and the random generators. Costs as much memory as the model.
class ModelSnapshot {
 public:
  explicit ModelSnapshot(const Run::Parts& parts);

  /// Collective.
  void restore() const;

 private:
  const Run::Parts parts_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  ///< the tensor, its values
  TrainState generators_;
};

}  // namespace cxtrain
