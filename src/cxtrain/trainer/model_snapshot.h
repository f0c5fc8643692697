#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

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
  ModelSnapshot(const TrainContext::Parts& parts, Optimization& optimization)
      : parts_(parts), optimization_(optimization) {
    optimization_.begin_update();
    const auto keep = [this](const at::Tensor& tensor) {
      copies_.emplace_back(tensor, tensor.detach().clone());
    };
    for (const Piece& piece : optimization.pieces()) keep(piece.values);
    for (const NamedTensor& buffer : trainable(parts_.module).all_buffers()) keep(buffer.tensor);
    parts.generators.save(generators_);
  }

  /// Collective.
  void restore() const {
    optimization_.begin_update();
    {
      const at::NoGradGuard no_grad;
      for (const auto& [tensor, values] : copies_) at::Tensor(tensor).copy_(values);
    }
    optimization_.publish();
    parts_.generators.load(generators_);
  }

 private:
  const TrainContext::Parts parts_;
  Optimization& optimization_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  ///< the tensor, its values
  StateDict generators_;
};

}  // namespace cxtrain
