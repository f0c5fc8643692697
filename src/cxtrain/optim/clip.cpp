#include "cxtrain/optim/clip.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/reciprocal.h>

#include "cxtrain/tensor/layout.h"

namespace cxtrain {

void clip_by_norm(at::TensorList gradients, const at::Tensor& norm, double max_norm) {
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  const at::Tensor factor = at::clamp_max(at::reciprocal(norm.add(1e-6)).mul(max_norm), 1.0);
  for_each_dtype_and_device(gradients, [&](at::TensorList list) {
    at::_foreach_mul_(list, factor.to(list[0].device(), list[0].scalar_type()));
  });
}

void clip_by_value(at::TensorList gradients, double limit) {
  const at::NoGradGuard no_grad;
  for_each_dtype_and_device(gradients, [&](at::TensorList list) {
    at::_foreach_clamp_min_(list, -limit);
    at::_foreach_clamp_max_(list, limit);
  });
}

}  // namespace cxtrain
