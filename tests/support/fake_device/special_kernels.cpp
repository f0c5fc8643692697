#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

#include "support/fake_device/host_kernel.h"

/// Operators that the CPU has under another name, or whose composition of other operators would give other
/// bits than the CPU's own kernel, or a warning.
namespace cxtrain::test {

namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

OperatorHandle aten(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

void convolution(const OperatorHandle& op, Stack* stack) {
  static const OperatorHandle kernel = aten("aten::convolution");
  run_on_host(op, kernel, stack);
}

void convolution_backward(const OperatorHandle& op, Stack* stack) {
  // The CPU's has one argument more, the bias's sizes: run_on_host calls an operator that has the same ones.
  static const OperatorHandle kernel = aten("cxtrain_fake::convolution_backward");
  run_on_host(op, kernel, stack);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_without_bias_sizes(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    std::int64_t groups, std::array<bool, 3> output_mask) {
  static const auto kernel =
      aten("aten::convolution_backward")
          .typed<std::tuple<at::Tensor, at::Tensor, at::Tensor>(
              const at::Tensor&, const at::Tensor&, const at::Tensor&, at::OptionalSymIntArrayRef,
              c10::SymIntArrayRef, c10::SymIntArrayRef, c10::SymIntArrayRef, bool, c10::SymIntArrayRef,
              c10::SymInt, std::array<bool, 3>)>();
  const c10::SymInt features = transposed ? weight.size(1) * groups : weight.size(0);
  return kernel.call(grad_output, input, weight, c10::SymIntArrayRef(features),
                     c10::fromIntArrayRefSlow(stride), c10::fromIntArrayRefSlow(padding),
                     c10::fromIntArrayRefSlow(dilation), transposed, c10::fromIntArrayRefSlow(output_padding),
                     groups, output_mask);
}

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  const at::TensorOptions mask_options = input.options().dtype(at::kBool);
  if (!train.value_or(true)) return {input.clone(), at::ones_like(input, mask_options)};
  at::Tensor mask = at::empty_like(input, mask_options);
  mask.bernoulli_(1 - p);
  return {input.mul(mask).mul_(p == 1 ? 0. : 1 / (1 - p)), mask};
}

}  // namespace

}  // namespace cxtrain::test

TORCH_LIBRARY(cxtrain_fake, library) {
  library.def(
      "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[] stride, int[] padding, "
      "int[] dilation, bool transposed, int[] output_padding, int groups, bool[3] output_mask) -> (Tensor, "
      "Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cxtrain_fake, CPU, library) {
  library.impl("convolution_backward", TORCH_FN(cxtrain::test::convolution_backward_without_bias_sizes));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  using torch::CppFunction;
  library.impl("convolution_overrideable", CppFunction::makeFromBoxedFunction<&cxtrain::test::convolution>());
  library.impl("convolution_backward_overrideable",
               CppFunction::makeFromBoxedFunction<&cxtrain::test::convolution_backward>());
  library.impl("native_dropout", TORCH_FN(cxtrain::test::native_dropout));
  using Fallback = void (*)(const c10::OperatorHandle&, torch::jit::Stack*);
  for (const char* const name : {"native_layer_norm", "native_group_norm", "mse_loss", "smooth_l1_loss"}) {
    library.impl(name,
                 CppFunction::makeFromBoxedFunction<static_cast<Fallback>(&cxtrain::test::run_on_host)>());
  }
}
