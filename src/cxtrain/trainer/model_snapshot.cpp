#include "cxtrain/trainer/model_snapshot.h"

#include <ATen/core/grad_mode.h>

namespace cxtrain {
ModelSnapshot::ModelSnapshot(const TrainContext::Parts& parts, Optimization& optimization)
    : parts_(parts), optimization_(optimization) {
  optimization_.begin_update();
  const auto keep = [this](const at::Tensor& tensor) {
    copies_.emplace_back(tensor, tensor.detach().clone());
  };
  for (const Piece& piece : optimization.pieces()) keep(piece.values);
  for (const NamedTensor& buffer : trainable(parts_.module).all_buffers()) keep(buffer.tensor);
  parts.generators.save(generators_);
}

void ModelSnapshot::restore() const {
  optimization_.begin_update();
  {
    const at::NoGradGuard no_grad;
    for (const auto& [tensor, values] : copies_) at::Tensor(tensor).copy_(values);
  }
  optimization_.publish();
  parts_.generators.load(generators_);
}

}  // namespace cxtrain
