#include "cxtrain/trainer/finite_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>

#include <limits>

#include "cxtrain/base/error.h"

namespace cxtrain {

void require_finite_loss(const at::Tensor& loss) {
  if (!loss.defined() || at::isfinite(loss).all().item<bool>()) return;
  throw TrainingError("the loss is " + std::to_string(loss.item<double>()) +
                      " (trainer.terminate_on_nan); --detect_anomaly true finds the operation that makes it");
}

void require_finite_parameters(const Trainable& module) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> parameters = module.all_parameters();
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& parameter : parameters) tensors.push_back(parameter.tensor);
  std::vector<at::Tensor> largest = at::_foreach_norm(tensors, std::numeric_limits<double>::infinity());
  for (at::Tensor& value : largest) value = value.to(largest[0].device(), at::kFloat);
  const at::Tensor finite = at::isfinite(at::stack(largest));
  if (finite.all().item<bool>()) return;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (finite[static_cast<std::int64_t>(i)].item<bool>()) continue;
    throw TrainingError("the parameter " + parameters[i].name +
                        " is no longer finite (trainer.terminate_on_nan); a smaller learning rate or "
                        "--gradient_clip_val may help");
  }
}

}  // namespace cxtrain
