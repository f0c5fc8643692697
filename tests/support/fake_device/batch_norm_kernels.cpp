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

bool has_value(const std::optional<at::Tensor>& tensor) { return tensor && tensor->defined(); }

/// Weights have the input's dtype, or that of the statistics.
void check_weight(const std::optional<at::Tensor>& weight, const at::Tensor& input) {
  if (!has_value(weight)) return;
  const at::ScalarType dtype = weight->scalar_type();
  TORCH_CHECK(dtype == input.scalar_type() || dtype == precise(input), "weights of ", dtype,
              " for an input of ", input.scalar_type());
}

/// CUDA's kernels go through both as they lie in memory.
void check_layouts(const at::Tensor& grad, const at::Tensor& input) {
  TORCH_CHECK(grad.suggest_memory_format() == input.suggest_memory_format() &&
                  grad.is_contiguous(input.suggest_memory_format()) &&
                  input.is_contiguous(input.suggest_memory_format()),
              "the gradient lies otherwise in memory than the input");
}

/// A kernel without threads cannot be launched.
void check_not_empty(const at::Tensor& input) { TORCH_CHECK(input.numel() > 0, "invalid configuration"); }

std::tuple<at::Tensor, at::Tensor> stats(const at::Tensor& input, double eps) {
  check_not_empty(input);
  const auto [variance, mean] =
      at::var_mean(input.to(precise(input)), all_but_channels(input), /*correction=*/at::Scalar(0), false);
  return {mean, (variance + eps).rsqrt()};
}

/// As CUDA's kernel does it: one row after the other, the values counted in whole numbers; a first row of 0
/// values is a division by zero. The dtype of the running statistics, or else the input's, is the counts'.
std::tuple<at::Tensor, at::Tensor> gather_stats(const at::Tensor& input, const at::Tensor& mean,
                                                const at::Tensor& invstd,
                                                const std::optional<at::Tensor>& running_mean,
                                                const std::optional<at::Tensor>& running_var, double momentum,
                                                double eps, const at::Tensor& counts) {
  const at::Tensor& typed = has_value(running_mean) ? *running_mean : input;
  TORCH_CHECK(counts.scalar_type() == typed.scalar_type(), "expected counts of ", typed.scalar_type(),
              ", got ", counts.scalar_type());
  TORCH_CHECK(mean.scalar_type() == precise(typed), "expected means of ", precise(typed), ", got ",
              mean.scalar_type());
  at::Tensor seen = at::zeros({}, mean.options());
  at::Tensor joined = at::zeros({mean.size(1)}, mean.options()), squares = at::zeros_like(joined);
  for (std::int64_t row = 0; row < mean.size(0); ++row) {
    const at::Tensor count = counts[row].to(mean.scalar_type()), factor = (seen + count).reciprocal();
    squares =
        squares + (invstd[row].pow(-2) - eps) * count + (joined - mean[row]).square() * seen * count * factor;
    joined = joined * seen * factor + mean[row] * count * factor;
    seen = (seen + count).trunc();
  }
  if (has_value(running_mean)) running_mean->mul_(1 - momentum).add_(joined, momentum);
  if (has_value(running_var)) running_var->mul_(1 - momentum).add_(squares / (seen - 1), momentum);
  return {joined, (squares / seen + eps).rsqrt()};
}

at::Tensor normalize(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias, const at::Tensor& mean, const at::Tensor& invstd,
                     double) {
  check_not_empty(input);
  check_weight(weight, input);
  check_weight(bias, input);
  at::Tensor result = (input - spread(mean, input)) * spread(invstd, input);
  if (has_value(weight)) result = result * spread(*weight, input);
  if (has_value(bias)) result = result + spread(*bias, input);
  return result.to(input.scalar_type());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_reduce(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
    const std::optional<at::Tensor>& weight, bool input_g, bool weight_g, bool bias_g) {
  check_not_empty(input);
  check_weight(weight, input);
  check_layouts(grad, input);
  TORCH_CHECK(has_value(weight) || !(weight_g || bias_g), "gradients of weights that there are not");
  const auto dimensions = all_but_channels(input);
  const at::Tensor dy = grad.to(precise(input));
  const at::Tensor sum_dy = dy.sum(dimensions);
  const at::Tensor sum_dy_xmu = (dy * (input - spread(mean, input))).sum(dimensions);
  const at::ScalarType dtype = has_value(weight) ? weight->scalar_type() : input.scalar_type();
  return {input_g ? sum_dy : at::Tensor(), input_g ? sum_dy_xmu : at::Tensor(),
          weight_g ? (sum_dy_xmu * invstd).to(dtype) : at::Tensor(),
          bias_g ? sum_dy.to(dtype) : at::Tensor()};
}

at::Tensor backward_normalize(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& mean,
                              const at::Tensor& invstd, const std::optional<at::Tensor>& weight,
                              const at::Tensor& sum_dy, const at::Tensor& sum_dy_xmu,
                              const at::Tensor& count) {
  check_not_empty(input);
  check_weight(weight, input);
  check_layouts(grad, input);
  TORCH_CHECK(count.scalar_type() == at::kInt && count.is_contiguous(), "counts are int32");
  const at::Tensor total = count.sum().to(precise(input));
  const at::Tensor centered = input - spread(mean, input);
  at::Tensor result =
      grad - spread(sum_dy / total, input) - centered * spread(invstd.square() * sum_dy_xmu / total, input);
  result = result * spread(invstd, input);
  if (has_value(weight)) result = result * spread(*weight, input);
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
