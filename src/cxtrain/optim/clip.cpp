#include "cxtrain/optim/clip.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/reduce/tensor_kinds.h"

namespace cxtrain {

at::Tensor gradient_norm(at::TensorList gradients) {
  const at::NoGradGuard no_grad;
  if (gradients.empty()) return at::zeros({});
  std::vector<at::Tensor> norms = at::_foreach_norm(gradients, 2);
  // Half-precision gradients: their norms overflow when squared.
  for (at::Tensor& norm : norms) {
    const bool half = norm.scalar_type() == at::kHalf || norm.scalar_type() == at::kBFloat16;
    if (half || norm.device() != norms[0].device()) {
      norm = norm.to(norms[0].device(), half ? at::kFloat : norm.scalar_type());
    }
  }
  return at::linalg_vector_norm(at::stack(norms), 2);
}

void clip_by_norm(at::TensorList gradients, const at::Tensor& norm, double max_norm) {
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  const at::Tensor factor = at::clamp_max(at::reciprocal(norm.add(1e-6)).mul(max_norm), 1.0);
  for_each_kind(gradients, [&](at::TensorList kind) {
    at::_foreach_mul_(kind, factor.to(kind[0].device(), kind[0].scalar_type()));
  });
}

void clip_by_value(at::TensorList gradients, double limit) {
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_clamp_min_(gradients, -limit);
  at::_foreach_clamp_max_(gradients, limit);
}

}  // namespace cxtrain
