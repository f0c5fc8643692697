#include "cxtrain/trainer/batch_norms.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <torch/nn/modules/batchnorm.h>

namespace cxtrain {

void BatchNormLayer::reset_statistics() const {
  const at::NoGradGuard no_grad;
  for (const auto& buffer : module->named_buffers(/*recurse=*/false)) {
    if (buffer.value().defined()) buffer.value().fill_(buffer.key() == "running_var" ? 1 : 0);
  }
}

at::Tensor BatchNormLayer::running(const char* name) const {
  const at::Tensor* found = module->named_buffers(/*recurse=*/false).find(name);
  return found != nullptr ? *found : at::Tensor();
}

std::vector<BatchNormLayer> batch_norms(torch::nn::Module& model) {
  std::vector<BatchNormLayer> found;
  const auto take = [&](auto* layer) {
    if (layer != nullptr) found.push_back({layer, &layer->options});
  };
  const auto take_if_it_is_one = [&](torch::nn::Module& module) {
    take(module.as<torch::nn::BatchNorm1d>());
    take(module.as<torch::nn::BatchNorm2d>());
    take(module.as<torch::nn::BatchNorm3d>());
  };
  take_if_it_is_one(model);
  for (const auto& module : model.modules(/*include_self=*/false)) take_if_it_is_one(*module);
  return found;
}

void pool_statistics(const std::vector<BatchNormLayer>& layers, double samples, World& world) {
  if (world.size() == 1) return;
  const at::NoGradGuard no_grad;
  // Sums over ranks, per channel, of samples times the mean, and times the variance and the squared mean.
  std::vector<at::Tensor> parts{at::full({1}, samples, at::kDouble)};
  for (const BatchNormLayer& layer : layers) {
    if (!layer.running("running_mean").defined()) continue;
    const at::Tensor mean = layer.running("running_mean").to(at::kCPU, at::kDouble),
                     variance = layer.running("running_var").to(at::kCPU, at::kDouble);
    parts.push_back(mean.mul(samples));
    parts.push_back(variance.add(mean.square()).mul(samples));
  }
  const at::Tensor sums = at::cat(parts);
  world.sum({sums.mutable_data_ptr<double>(), static_cast<std::size_t>(sums.numel())});
  const auto samples_of_all = sums[0].item<double>();
  if (samples_of_all == 0) return;
  const at::Tensor means = sums.div(samples_of_all);
  std::int64_t next = 1;
  for (const BatchNormLayer& layer : layers) {
    const at::Tensor mean = layer.running("running_mean"), variance = layer.running("running_var");
    if (!mean.defined()) continue;
    const std::int64_t channels = mean.numel();
    const at::Tensor pooled = means.narrow(0, next, channels),
                     squares = means.narrow(0, next + channels, channels);
    next += 2 * channels;
    mean.copy_(pooled);
    variance.copy_(squares.sub(pooled.square()).clamp_min(0));
  }
}

}  // namespace cxtrain
