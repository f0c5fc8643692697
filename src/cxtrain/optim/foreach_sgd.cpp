#include "cxtrain/optim/foreach_sgd.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>

#include <vector>

namespace cxtrain {

bool fused_sgd_is_broken(const at::Tensor& parameter) {
  return parameter.is_cpu() &&
         (parameter.scalar_type() == at::kHalf || parameter.scalar_type() == at::kBFloat16);
}

void foreach_sgd_step(at::TensorList parameters, at::TensorList gradients, at::TensorList momentum,
                      const Sgd& rule, double weight_decay, double lr) {
  std::vector<at::Tensor> updates(gradients.begin(), gradients.end());
  if (weight_decay != 0) updates = at::_foreach_add(gradients, parameters, weight_decay);
  if (!momentum.empty()) {
    at::_foreach_mul_(momentum, rule.momentum);
    at::_foreach_add_(momentum, updates, 1 - rule.dampening);
    if (rule.nesterov) {
      updates = at::_foreach_add(updates, momentum, rule.momentum);
    } else {
      updates.assign(momentum.begin(), momentum.end());
    }
  }
  at::_foreach_add_(parameters, updates, -lr);
}

}  // namespace cxtrain
