#include "cxtrain/trainer/batch_norms.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/batchnorm.h>

namespace cxtrain {

void BatchNormLayer::reset_statistics() const {
  const at::NoGradGuard no_grad;
  for (const auto& buffer : module->named_buffers(/*recurse=*/false)) {
    if (buffer.value().defined()) buffer.value().fill_(buffer.key() == "running_var" ? 1 : 0);
  }
}

std::vector<BatchNormLayer> batch_norms(const torch::nn::Module& model) {
  std::vector<BatchNormLayer> found;
  const auto take = [&](auto* layer) {
    if (layer != nullptr) found.push_back({layer, &layer->options});
  };
  for (const auto& module : model.modules(/*include_self=*/false)) {
    take(module->as<torch::nn::BatchNorm1d>());
    take(module->as<torch::nn::BatchNorm2d>());
    take(module->as<torch::nn::BatchNorm3d>());
  }
  return found;
}

}  // namespace cxtrain
