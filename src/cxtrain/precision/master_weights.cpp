#include "cxtrain/precision/master_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>

namespace cxtrain {

MasterWeights::MasterWeights(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision)
    : masters_(std::move(parameters)), gradients_(masters_.size()) {
  if (!precision.master_weights) return;
  const at::NoGradGuard no_grad;
  for (NamedTensor& named : masters_) {
    if (c10::elementSize(named.tensor.scalar_type()) >= 4) continue;
    rounded_.push_back(named.tensor);
    named.tensor = named.tensor.to(at::kFloat).set_requires_grad(named.tensor.requires_grad());
    precise_.push_back(named.tensor);
  }
}

void MasterWeights::take_gradients() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < rounded_.size(); ++i) {
    const at::Tensor& from = rounded_[i].grad();
    at::Tensor& to = precise_[i].mutable_grad();
    if (!from.defined()) {
      to.reset();
      continue;
    }
    if (!to.defined()) to = at::empty_like(precise_[i]);
    to.copy_(from);
  }
  for (std::size_t i = 0; i < masters_.size(); ++i) gradients_[i] = masters_[i].tensor.grad();
}

void MasterWeights::write_back() {
  if (rounded_.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(rounded_, precise_);
}

}  // namespace cxtrain
