#include "cxtrain/precision/master_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>

namespace cxtrain {

MasterWeights::MasterWeights(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision)
    : masters_(std::move(parameters)), gradients_(masters_.size()) {
  const at::NoGradGuard no_grad;
  for (NamedTensor& named : masters_) {
    if (!has_master(named.tensor, precision)) continue;
    const auto alike = [&](const Pairs& pairs) {
      const at::Tensor& other = pairs.rounded.front();
      return other.scalar_type() == named.tensor.scalar_type() && other.device() == named.tensor.device();
    };
    auto pairs = std::find_if(pairs_.begin(), pairs_.end(), alike);
    if (pairs == pairs_.end()) pairs = pairs_.emplace(pairs_.end());
    pairs->rounded.push_back(named.tensor);
    named.tensor = named.tensor.to(at::kFloat).set_requires_grad(named.tensor.requires_grad());
    pairs->precise.push_back(named.tensor);
  }
}

void MasterWeights::take_gradients() {
  const at::NoGradGuard no_grad;
  for (Pairs& pairs : pairs_) {
    for (std::size_t i = 0; i < pairs.rounded.size(); ++i) {
      const at::Tensor& from = pairs.rounded[i].grad();
      at::Tensor& to = pairs.precise[i].mutable_grad();
      if (!from.defined()) {
        to.reset();
        continue;
      }
      if (!to.defined()) to = at::empty_like(pairs.precise[i]);
      to.copy_(from);
    }
  }
  for (std::size_t i = 0; i < masters_.size(); ++i) gradients_[i] = masters_[i].tensor.grad();
}

void MasterWeights::write_back() {
  const at::NoGradGuard no_grad;
  for (const Pairs& pairs : pairs_) at::_foreach_copy_(pairs.rounded, pairs.precise);
}

}  // namespace cxtrain
