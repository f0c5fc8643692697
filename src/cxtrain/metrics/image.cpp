#include "cxtrain/metrics/image.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/reflection_pad2d.h>
#include <c10/util/StringUtil.h>

#include <cmath>

#include "cxtrain/base/error.h"
#include "cxtrain/metrics/metric_args.h"

namespace cxtrain {
namespace {

void require_pictures(const char* metric, const at::Tensor& preds, const at::Tensor& target, bool four) {
  if (preds.sizes() == target.sizes() && (!four || preds.dim() == 4)) return;
  throw TrainingError(c10::str(metric, ": preds of shape ", preds.sizes(), ", target of shape ",
                               target.sizes(), four ? "; both have to be [N, C, H, W]" : ""),
                      MessageCode::log_misuse);
}

std::int64_t window_radius(double sigma) { return static_cast<std::int64_t>(std::floor(3.5 * sigma + 0.5)); }

/// Weights [channels, 1, size, size] that sum to 1 for each channel.
at::Tensor gaussian_window(double sigma, std::int64_t channels, const at::TensorOptions& options) {
  const std::int64_t radius = window_radius(sigma);
  const at::Tensor distance = at::arange(-radius, radius + 1, options);
  const at::Tensor weights = distance.div(sigma).square().div(-2).exp();
  const at::Tensor row = weights.div(weights.sum()).unsqueeze(0);
  return row.t().matmul(row).expand({channels, 1, row.size(1), row.size(1)}).contiguous();
}

}  // namespace

PeakSignalNoiseRatio::PeakSignalNoiseRatio(const Args& args)
    : args_(checked_metric_args("PeakSignalNoiseRatio", args)) {}

void PeakSignalNoiseRatio::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_pictures("PeakSignalNoiseRatio", preds, target, /*four=*/false);
  squares_ += here(preds).to(at::kDouble).sub(here(target)).square().sum();
  count_ += target.numel();
}

at::Tensor PeakSignalNoiseRatio::compute() const {
  const at::Tensor log_error = squares_.div(count_).log();
  return log_error.neg().add(2 * std::log(args_.data_range)).mul(10 / std::log(args_.base));
}

StructuralSimilarityIndexMeasure::StructuralSimilarityIndexMeasure(const Args& args)
    : args_(checked_metric_args("StructuralSimilarityIndexMeasure", args)) {}

void StructuralSimilarityIndexMeasure::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_pictures("StructuralSimilarityIndexMeasure", preds, target, /*four=*/true);
  const at::ScalarType dtype = preds.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::int64_t radius = window_radius(args_.sigma), channels = preds.size(1);
  const auto padded = [&](const at::Tensor& picture) {
    return at::reflection_pad2d(here(picture).to(dtype), {radius, radius, radius, radius});
  };
  const at::Tensor x = padded(preds), y = padded(target);
  const std::int64_t one[] = {1, 1}, none[] = {0, 0};
  const at::Tensor means = at::convolution(
      at::cat({x, y, x.mul(x), y.mul(y), x.mul(y)}), gaussian_window(args_.sigma, channels, x.options()),
      /*bias=*/{}, /*stride=*/one,
      /*padding=*/none, /*dilation=*/one, /*transposed=*/false, /*output_padding=*/none, channels);
  const auto parts = means.chunk(5);
  const at::Tensor xx = parts[0].square(), yy = parts[1].square(), xy = parts[0].mul(parts[1]);
  const at::Tensor var_x = parts[2].sub(xx).clamp_min(0), var_y = parts[3].sub(yy).clamp_min(0);
  const at::Tensor covariance = parts[4].sub(xy);
  const double c1 = std::pow(args_.k1 * args_.data_range, 2), c2 = std::pow(args_.k2 * args_.data_range, 2);
  const at::Tensor upper = xy.mul(2).add(c1).mul(covariance.mul(2).add(c2));
  const at::Tensor lower = xx.add(yy).add(c1).mul(var_x.add(var_y).add(c2));
  similarity_ += upper.div(lower).to(at::kDouble).flatten(1).mean(1).sum();
  pictures_ += preds.size(0);
}

}  // namespace cxtrain
