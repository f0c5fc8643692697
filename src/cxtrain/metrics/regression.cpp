#include "cxtrain/metrics/regression.h"

#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/metrics/metric_args.h"
#include "cxtrain/metrics/moments.h"

namespace cxtrain {
namespace {

void require_same_shape(const char* metric, const at::Tensor& preds, const at::Tensor& target) {
  if (preds.sizes() == target.sizes()) return;
  std::ostringstream text;
  text << metric << ": preds of shape " << preds.sizes() << ", target of shape " << target.sizes();
  throw TrainingError(text.str(), MessageCode::log_misuse);
}

at::Tensor number() { return at::zeros({}, at::kDouble); }

/// 1 - error / variance; 1 where both are 0, and 0 where only the variance is. NaN without samples.
at::Tensor explained(const at::Tensor& error, const at::Tensor& variance, const at::Tensor& count) {
  const at::Tensor score = error.div(variance).neg().add(1);
  const at::Tensor of_samples = at::where(variance.ne(0), score, error.eq(0).to(at::kDouble));
  return of_samples.masked_fill(count.eq(0), std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

MeanSquaredError::MeanSquaredError(const Args& args)
    : args_(args), squares_(add_state("squares", number())), count_(add_state("count", number())) {}

void MeanSquaredError::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_same_shape("MeanSquaredError", preds, target);
  squares_ += here(preds).to(at::kDouble).sub(here(target)).square().sum();
  count_ += preds.numel();
}

at::Tensor MeanSquaredError::compute() const {
  const at::Tensor mean = squares_.div(count_);
  return args_.squared ? mean : mean.sqrt();
}

MeanAbsoluteError::MeanAbsoluteError()
    : sum_(add_state("sum", number())), count_(add_state("count", number())) {}

void MeanAbsoluteError::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_same_shape("MeanAbsoluteError", preds, target);
  sum_ += here(preds).to(at::kDouble).sub(here(target)).abs().sum();
  count_ += preds.numel();
}

at::Tensor MeanAbsoluteError::compute() const { return sum_.div(count_); }

PairMoments::PairMoments(const char* metric, std::int64_t outputs)
    : metric_(metric),
      outputs_(outputs),
      moments_(add_state("moments", at::zeros({outputs, 6}, at::kDouble), Reduce::moments)) {}

void PairMoments::add_pairs(const at::Tensor& a, const at::Tensor& b) {
  require_same_shape(metric_, a, b);
  const bool has_columns = a.dim() == 2 ? a.size(1) == outputs_ : outputs_ == 1 && a.dim() < 2;
  if (!has_columns) {
    std::ostringstream text;
    text << metric_ << ": preds of shape " << a.sizes() << ", where `outputs` is " << outputs_
         << ": the shape is [N, outputs]" << (outputs_ == 1 ? ", or [N]" : "");
    throw TrainingError(text.str(), MessageCode::log_misuse);
  }
  if (a.numel() == 0) return;
  const auto columns = [&](const at::Tensor& values) {
    return here(values).to(at::kDouble).reshape({-1, outputs_});
  };
  moments_ = join_moments(moments_, moments_of(columns(a), columns(b)));
}

PairMoments::Moments PairMoments::moments() const {
  const auto column = [&](std::int64_t i) { return moments_.select(1, i); };
  return {column(0), column(1), column(2), column(3), column(4), column(5)};
}

R2Score::R2Score(const Args& args) : PairMoments("R2Score", checked_metric_args("R2Score", args).outputs) {}

void R2Score::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_same_shape("R2Score", preds, target);
  const at::Tensor truth = here(target).to(at::kDouble);
  add_pairs(truth.sub(here(preds)), truth);
}

at::Tensor R2Score::compute() const {
  const Moments sums = moments();
  const at::Tensor residuals = sums.c_aa.add(sums.count.mul(sums.mean_a.square()));
  return explained(residuals, sums.c_bb, sums.count).mean();
}

ExplainedVariance::ExplainedVariance(const Args& args)
    : PairMoments("ExplainedVariance", checked_metric_args("ExplainedVariance", args).outputs) {}

void ExplainedVariance::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_same_shape("ExplainedVariance", preds, target);
  const at::Tensor truth = here(target).to(at::kDouble);
  add_pairs(truth.sub(here(preds)), truth);
}

at::Tensor ExplainedVariance::compute() const {
  const Moments sums = moments();
  return explained(sums.c_aa, sums.c_bb, sums.count).mean();
}

PearsonCorrCoef::PearsonCorrCoef(const Args& args)
    : PairMoments("PearsonCorrCoef", checked_metric_args("PearsonCorrCoef", args).outputs),
      one_number_(args.outputs == 1) {}

void PearsonCorrCoef::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  add_pairs(preds, target);
}

at::Tensor PearsonCorrCoef::compute() const {
  const Moments sums = moments();
  const at::Tensor r = sums.c_ab.div(sums.c_aa.sqrt().mul(sums.c_bb.sqrt())).clamp(-1, 1);
  return one_number_ ? r[0] : r;
}

CosineSimilarity::CosineSimilarity(const Args& args)
    : args_(args), sum_(add_state("sum", number())), count_(add_state("count", number())) {}

void CosineSimilarity::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  require_same_shape("CosineSimilarity", preds, target);
  const at::Tensor a = here(preds).to(at::kDouble), b = here(target).to(at::kDouble);
  const at::Tensor cosines = a.mul(b).sum(-1).div(a.norm(2, -1).mul(b.norm(2, -1)));
  sum_ += cosines.sum();
  count_ += cosines.numel();
}

at::Tensor CosineSimilarity::compute() const { return args_.mean ? sum_.div(count_) : sum_; }

}  // namespace cxtrain
