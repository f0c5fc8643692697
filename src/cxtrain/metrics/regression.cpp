#include "cxtrain/metrics/regression.h"

#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <c10/util/StringUtil.h>

#include <limits>

#include "cxtrain/base/error.h"
#include "cxtrain/metrics/metric_args.h"
#include "cxtrain/metrics/moments.h"

namespace cxtrain {
namespace {

void require_same_shape(const char* metric, const at::Tensor& preds, const at::Tensor& target) {
  if (preds.sizes() == target.sizes()) return;
  throw TrainingError(
      c10::str(metric, ": preds of shape ", preds.sizes(), ", target of shape ", target.sizes()),
      MessageCode::log_misuse);
}

/// 1 - error / variance; 1 where both are 0, and 0 where only the variance is. NaN without samples.
at::Tensor explained(const at::Tensor& error, const at::Tensor& variance, const at::Tensor& count) {
  const at::Tensor score = error.div(variance).neg().add(1);
  const at::Tensor of_samples = at::where(variance.ne(0), score, error.eq(0).to(at::kDouble));
  return of_samples.masked_fill(count.eq(0), std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

void MeanSquaredError::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_same_shape("MeanSquaredError", preds, target);
  squares_ += here(preds).to(at::kDouble).sub(here(target)).square().sum();
  count_ += preds.numel();
}

void MeanAbsoluteError::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_same_shape("MeanAbsoluteError", preds, target);
  sum_ += here(preds).to(at::kDouble).sub(here(target)).abs().sum();
  count_ += preds.numel();
}

PairMoments::PairMoments(const char* metric, const OutputsArgs& args, FirstOfPair first)
    : metric_(metric),
      outputs_(checked_metric_args(metric, args).outputs),
      first_(first),
      moments_(add_state("moments", at::zeros({outputs_, 6}, at::kDouble), Reduce::moments)) {}

void PairMoments::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_same_shape(metric_, preds, target);
  const bool has_columns = preds.dim() == 2 ? preds.size(1) == outputs_ : outputs_ == 1 && preds.dim() < 2;
  if (!has_columns) {
    throw TrainingError(c10::str(metric_, ": preds of shape ", preds.sizes(), ", where `outputs` is ",
                                 outputs_, ": the shape is [N, outputs]", outputs_ == 1 ? ", or [N]" : ""),
                        MessageCode::log_misuse);
  }
  if (preds.numel() == 0) return;
  const auto columns = [&](const at::Tensor& values) {
    return here(values).to(at::kDouble).reshape({-1, outputs_});
  };
  const at::Tensor b = columns(target), of_preds = columns(preds);
  moments_ =
      join_moments(moments_, moments_of(first_ == FirstOfPair::residual ? b.sub(of_preds) : of_preds, b));
}

PairMoments::Moments PairMoments::moments() const {
  const auto column = [&](std::int64_t i) { return moments_.select(1, i); };
  return {column(0), column(1), column(2), column(3), column(4), column(5)};
}

at::Tensor R2Score::compute() const {
  const Moments sums = moments();
  const at::Tensor residuals = sums.c_aa.add(sums.count.mul(sums.mean_a.square()));
  return explained(residuals, sums.c_bb, sums.count).mean();
}

at::Tensor ExplainedVariance::compute() const {
  const Moments sums = moments();
  return explained(sums.c_aa, sums.c_bb, sums.count).mean();
}

at::Tensor PearsonCorrCoef::compute() const {
  const Moments sums = moments();
  const at::Tensor r = sums.c_ab.div(sums.c_aa.sqrt().mul(sums.c_bb.sqrt())).clamp(-1, 1);
  return one_number_ ? r[0] : r;
}

void CosineSimilarity::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_same_shape("CosineSimilarity", preds, target);
  const at::Tensor a = here(preds).to(at::kDouble), b = here(target).to(at::kDouble);
  const at::Tensor cosines = a.mul(b).sum(-1).div(a.norm(2, -1).mul(b.norm(2, -1)));
  sum_ += cosines.sum();
  count_ += cosines.numel();
}

}  // namespace cxtrain
