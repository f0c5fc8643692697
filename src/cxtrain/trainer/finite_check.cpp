#include "cxtrain/trainer/finite_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/tensor/norms.h"

namespace cxtrain {

void require_finite_loss(const at::Tensor& loss) {
  if (!loss.defined() || at::isfinite(loss).all().item<bool>()) return;
  throw TrainingError("the loss is " + std::to_string(loss.item<double>()) +
                      " (trainer.terminate_on_nan); --detect_anomaly true finds the operation that makes it");
}

void require_finite_parameters(TrainedParameters& trained) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const Piece& piece : trained.pieces()) values.push_back(piece.values.detach());
  const std::vector<at::Tensor> largest = norms(values, std::numeric_limits<double>::infinity());
  std::string name;
  for (std::size_t i = 0; i < largest.size() && name.empty(); ++i) {
    if (!std::isfinite(largest[i].item<double>())) name = trained.pieces()[i].name;
  }
  const at::Device device = values.empty() ? at::Device(at::kCPU) : values[0].device();
  const at::Tensor found =
      at::full({1}, name.empty() ? 0.0 : 1.0, at::TensorOptions(at::kFloat).device(device));
  trained.agree_on_overflow(found);
  if (found.item<float>() == 0) return;
  throw TrainingError((name.empty() ? "a parameter that another rank updates" : "the parameter " + name) +
                      " is no longer finite (trainer.terminate_on_nan); a smaller learning rate or "
                      "--gradient_clip_val may help");
}

}  // namespace cxtrain
