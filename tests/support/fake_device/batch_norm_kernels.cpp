#include <ATen/ATen.h>
#include <torch/library.h>

/// The parts of synchronised batch normalisation, which CUDA has and the CPU has not: composed of operators
/// that the fake device has. Statistics are float32 where the input is of 16 bits.
namespace cxtrain::test {

namespace {

at::ScalarType precise(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

std::vector<std::int64_t> all_but_channels(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions;
  for (std::int64_t i = 0; i < input.dim(); ++i) {
    if (i != 1) dimensions.push_back(i);
  }
  return dimensions;
}

/// One value for each channel, shaped so that it meets the input's elements.
at::Tensor spread(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = -1;
  return values.to(precise(input)).view(shape);
}

std::tuple<at::Tensor, at::Tensor> stats(const at::Tensor& input, double eps) {
  const auto [variance, mean] =
      at::var_mean(input.to(precise(input)), all_but_channels(input), /*correction=*/at::Scalar(0), false);
  return {mean, (variance + eps).rsqrt()};
}

std::tuple<at::Tensor, at::Tensor> gather_stats(const at::Tensor&, const at::Tensor& mean,
                                                const at::Tensor& invstd,
                                                const std::optional<at::Tensor>& running_mean,
                                                const std::optional<at::Tensor>& running_var, double momentum,
                                                double eps, const at::Tensor& counts) {
  const at::Tensor weight = counts.to(mean.scalar_type()).view({-1, 1});
  const at::Tensor count = weight.sum();
  const at::Tensor joined = (mean * weight).sum(0) / count;
  const at::Tensor squares = ((invstd.pow(-2) - eps + (mean - joined).square()) * weight).sum(0);
  if (running_mean && running_mean->defined()) running_mean->mul_(1 - momentum).add_(joined, momentum);
  if (running_var && running_var->defined())
    running_var->mul_(1 - momentum).add_(squares / (count - 1), momentum);
  return {joined, (squares / count + eps).rsqrt()};
}

at::Tensor normalize(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias, const at::Tensor& mean, const at::Tensor& invstd,
                     double) {
  at::Tensor result = (input - spread(mean, input)) * spread(invstd, input);
  if (weight && weight->defined()) result = result * spread(*weight, input);
  if (bias && bias->defined()) result = result + spread(*bias, input);
  return result.to(input.scalar_type());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_reduce(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
    const std::optional<at::Tensor>& weight, bool input_g, bool weight_g, bool bias_g) {
  const auto dimensions = all_but_channels(input);
  const at::Tensor dy = grad.to(precise(input));
  const at::Tensor sum_dy = dy.sum(dimensions);
  const at::Tensor sum_dy_xmu = (dy * (input - spread(mean, input))).sum(dimensions);
  const at::ScalarType dtype = weight && weight->defined() ? weight->scalar_type() : input.scalar_type();
  return {input_g ? sum_dy : at::Tensor(), input_g ? sum_dy_xmu : at::Tensor(),
          weight_g ? (sum_dy_xmu * invstd).to(dtype) : at::Tensor(),
          bias_g ? sum_dy.to(dtype) : at::Tensor()};
}

at::Tensor backward_normalize(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                              const at::Tensor& invstd, const std::optional<at::Tensor>& weight,
                              const at::Tensor& sum_dy, const at::Tensor& sum_dy_xmu,
                              const at::Tensor& count) {
  const at::Tensor total = count.sum().to(precise(input));
  const at::Tensor centered = input - spread(mean, input);
  at::Tensor result =
      grad - spread(sum_dy / total, input) - centered * spread(invstd.square() * sum_dy_xmu / total, input);
  result = result * spread(invstd, input);
  if (weight && weight->defined()) result = result * spread(*weight, input);
  return result.to(input.scalar_type());
}

}  // namespace

}  // namespace cxtrain::test

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("batch_norm_stats", TORCH_FN(cxtrain::test::stats));
  library.impl("batch_norm_gather_stats_with_counts", TORCH_FN(cxtrain::test::gather_stats));
  library.impl("batch_norm_elemt", TORCH_FN(cxtrain::test::normalize));
  library.impl("batch_norm_backward_reduce", TORCH_FN(cxtrain::test::backward_reduce));
  library.impl("batch_norm_backward_elemt", TORCH_FN(cxtrain::test::backward_normalize));
}
