#include "cxtrain/trainer/place_layers.h"

#include <ATen/core/grad_mode.h>

#include <unordered_set>

#include "cxtrain/tensor/layout.h"
#include "cxtrain/trainer/batch_norms.h"

namespace cxtrain {

/// As Python's `Module.to`: indices, counts and masks keep their dtypes, which C++'s `to(dtype)` would cast.
void place_layers(torch::nn::Module& module, at::Device device, const PrecisionPolicy& precision) {
  const at::NoGradGuard no_grad;
  module.to(device);
  if (!precision.module_dtype) return;
  std::unordered_set<const at::TensorImpl*> in_float32;
  if (precision.batch_norm_in_float32) {
    for (const BatchNormLayer& layer : batch_norms(module)) {
      for (const at::Tensor& tensor : layer.module->parameters())
        in_float32.insert(tensor.unsafeGetTensorImpl());
      for (const at::Tensor& tensor : layer.module->buffers())
        in_float32.insert(tensor.unsafeGetTensorImpl());
    }
  }
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.is_floating_point()) continue;
      const bool exact = in_float32.contains(tensor.unsafeGetTensorImpl());
      tensor.set_data(tensor.to(exact ? at::kFloat : *precision.module_dtype));
    }
  }
}

void set_channels_last(torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters())
    parameter.set_data(with_channels_last(parameter.detach()));
}

}  // namespace cxtrain
