#include "cxtrain/trainer/model_snapshot.h"

#include <ATen/core/grad_mode.h>

#include <unordered_set>

namespace cxtrain {
namespace {

int cuda_index(const Run::Parts& parts) { return parts.device.is_cuda() ? parts.device.index() : -1; }

}  // namespace

ModelSnapshot::ModelSnapshot(const Run::Parts& parts) : parts_(parts) {
  const at::NoGradGuard no_grad;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& tensors : {parts_.module.all_parameters(), parts_.module.all_buffers(),
                              parts_.strategy.optimizer_parameters()}) {
    for (const NamedTensor& named : tensors) {
      if (!seen.insert(named.tensor.unsafeGetTensorImpl()).second) continue;
      copies_.emplace_back(named.tensor, named.tensor.detach().clone());
    }
  }
  capture_rng(generators_, cuda_index(parts_));
}

void ModelSnapshot::restore() const {
  {
    const at::NoGradGuard no_grad;
    for (const auto& [tensor, values] : copies_) at::Tensor(tensor).copy_(values);
  }
  parts_.strategy.after_optimizer_step();  // replicas elsewhere learn of it as they learn of any step
  restore_rng(generators_, cuda_index(parts_));
}

}  // namespace cxtrain
