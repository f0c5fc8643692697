#include "cxtrain/trainer/model_snapshot.h"

#include <ATen/core/grad_mode.h>

namespace cxtrain {
namespace {

int cuda_index(const Run::Parts& parts) { return parts.device.is_cuda() ? parts.device.index() : -1; }

}  // namespace

ModelSnapshot::ModelSnapshot(const Run::Parts& parts, TrainedParameters& trained)
    : parts_(parts), trained_(trained) {
  const auto keep = [this](const at::Tensor& tensor) {
    copies_.emplace_back(tensor, tensor.detach().clone());
  };
  for (const Piece& piece : trained.pieces()) keep(piece.values);
  for (const NamedTensor& buffer : parts_.module.all_buffers()) keep(buffer.tensor);
  capture_rng(generators_, cuda_index(parts_));
}

void ModelSnapshot::restore() const {
  {
    const at::NoGradGuard no_grad;
    for (const auto& [tensor, values] : copies_) at::Tensor(tensor).copy_(values);
  }
  trained_.publish();
  restore_rng(generators_, cuda_index(parts_));
}

}  // namespace cxtrain
