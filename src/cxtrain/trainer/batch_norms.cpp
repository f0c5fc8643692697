#include "cxtrain/trainer/batch_norms.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/modules/batchnorm.h>

#include <algorithm>

namespace cxtrain {

void BatchNormLayer::reset_statistics() const {
  const at::NoGradGuard no_grad;
  for (const auto& buffer : module->named_buffers(/*recurse=*/false)) {
    if (buffer.value().defined()) buffer.value().fill_(buffer.key() == "running_var" ? 1 : 0);
  }
}

at::Tensor BatchNormLayer::running_mean() const {
  const at::Tensor* found = module->named_buffers(/*recurse=*/false).find("running_mean");
  return found != nullptr ? *found : at::Tensor();
}

at::Tensor BatchNormLayer::running_var() const {
  const at::Tensor* found = module->named_buffers(/*recurse=*/false).find("running_var");
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
  std::vector<double> sums{samples};
  const auto each = [](const at::Tensor& tensor, auto&& visit) {
    if (!tensor.defined()) return;
    const at::Tensor values = tensor.to(at::kCPU, at::kDouble).contiguous();
    const double* begin = values.const_data_ptr<double>();
    std::for_each(begin, begin + values.numel(), visit);
  };
  for (const BatchNormLayer& layer : layers) {
    std::vector<double> means;
    each(layer.running_mean(), [&](double mean) {
      means.push_back(mean);
      sums.push_back(samples * mean);
    });
    std::size_t channel = 0;
    each(layer.running_var(), [&](double variance) {
      const double mean = means[channel++];
      sums.push_back(samples * (variance + mean * mean));
    });
  }
  world.sum(sums);
  if (sums[0] == 0) return;
  const double* next = sums.data() + 1;
  for (const BatchNormLayer& layer : layers) {
    const at::Tensor mean = layer.running_mean(), variance = layer.running_var();
    if (!mean.defined()) continue;
    const std::int64_t channels = mean.numel();
    std::vector<double> means(next, next + channels), variances(next + channels, next + 2 * channels);
    next += 2 * channels;
    for (std::size_t i = 0; i < means.size(); ++i) {
      means[i] /= sums[0];
      variances[i] = std::max(0.0, variances[i] / sums[0] - means[i] * means[i]);
    }
    mean.copy_(at::tensor(means, at::kDouble).view_as(mean));
    variance.copy_(at::tensor(variances, at::kDouble).view_as(variance));
  }
}

}  // namespace cxtrain
