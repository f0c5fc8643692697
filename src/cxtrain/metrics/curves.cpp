#include "cxtrain/metrics/curves.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/trapezoid.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <vector>

#include "cxtrain/metrics/class_inputs.h"
#include "cxtrain/metrics/metric_args.h"

namespace cxtrain {

using class_inputs::safe_divide;

CurveMetric::CurveMetric(const char* metric, const Args& args)
    : metric_(metric),
      args_(checked_metric_args(metric, args)),
      curves_(args.task == ClassificationTask::binary ? 1 : args.classes) {
  if (args.average == Averaging::micro)
    refuse_metric_argument(metric, "average", "is micro; use macro, weighted or none");
  if (args.thresholds == 1) refuse_metric_argument(metric, "thresholds", "is 1; use 0, or 2 and more");
  if (args.thresholds > 0) {
    counts_ = &add_state("counts", at::zeros({2, curves_, args.thresholds + 1}, at::kLong));
    return;
  }
  scores_ = &add_state("scores", at::empty({0, curves_}, at::kFloat), Reduce::cat);
  const bool of_labels = args.task == ClassificationTask::multilabel;
  labels_ = &add_state("labels", of_labels ? at::empty({0, curves_}, at::kLong) : at::empty({0}, at::kLong),
                       Reduce::cat);
}

CurveMetric::Samples CurveMetric::samples_of(const at::Tensor& preds, const at::Tensor& target) const {
  Samples samples;
  if (args_.task == ClassificationTask::multiclass) {
    const at::Tensor truth = target.reshape({-1}).to(at::kLong).unsqueeze(1);
    samples.scores = class_inputs::rows_of(metric_, class_inputs::softmax_if_needed(preds), args_.classes);
    samples.valid = truth.ne(args_.ignore_index).expand_as(samples.scores);
    class_inputs::require_classes(metric_, "target", truth, truth.ne(args_.ignore_index), args_.classes);
    samples.positive = truth.eq(at::arange(curves_, truth.options()));
    return samples;
  }
  const class_inputs::Labels labels =
      class_inputs::labels_of(metric_, preds, target, curves_, 0.5, args_.ignore_index);
  const at::Tensor scores = class_inputs::sigmoid_if_needed(preds);
  samples.scores = curves_ == 1 ? scores.reshape({-1, 1}) : class_inputs::rows_of(metric_, scores, curves_);
  samples.positive = labels.target;
  samples.valid = labels.valid;
  return samples;
}

void CurveMetric::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  const Samples samples = samples_of(here(preds), here(target));
  if (counts_ == nullptr) {
    at::Tensor labels = at::where(samples.valid, samples.positive.to(at::kLong), -1);
    if (args_.task == ClassificationTask::binary) labels = labels.reshape({-1});
    if (args_.task == ClassificationTask::multiclass) {
      const at::Tensor truth = here(target).reshape({-1}).to(at::kLong);
      labels = at::where(truth.ne(args_.ignore_index), truth, -1);
    }
    append(*scores_, samples.scores);
    append(*labels_, labels);
    return;
  }
  // How many thresholds a score reaches. linspace in float32, as torchmetrics has it.
  const std::int64_t bins = args_.thresholds + 1;
  const at::Tensor edges = at::linspace(0, 1, args_.thresholds, samples.scores.options().dtype(at::kFloat))
                               .to(samples.scores.scalar_type());
  const at::Tensor reached = at::searchsorted(edges, samples.scores.contiguous(), /*out_int32=*/false,
                                              /*right=*/true);
  const at::Tensor curve = at::arange(curves_, reached.options()).mul(bins);
  const at::Tensor cell = samples.positive.to(at::kLong).mul(curves_ * bins).add(curve).add(reached);
  const std::int64_t cells = counts_->numel();
  const at::Tensor counts =
      class_inputs::collector(at::where(samples.valid, cell, cells), cells + 1).narrow(0, 0, cells);
  *counts_ += counts.reshape(counts_->sizes());
}

at::Tensor CurveMetric::binned_areas() const {
  const at::Tensor counts = counts_->to(at::kDouble);
  // Those at or above a threshold, from the highest threshold on; the first bin is below all of them.
  const at::Tensor above = counts.flip(-1).cumsum(-1).narrow(-1, 0, args_.thresholds);
  const at::Tensor all = counts.sum(-1);
  return area(above[1], above[0], all[1], all[0], /*exact=*/false);
}

at::Tensor CurveMetric::exact_labels(std::int64_t label) const {
  if (args_.task == ClassificationTask::binary) return *labels_;
  if (args_.task == ClassificationTask::multilabel) return labels_->select(1, label);
  return at::where(labels_->lt(0), *labels_, labels_->eq(label).to(at::kLong));
}

at::Tensor CurveMetric::exact_areas() const {
  std::vector<at::Tensor> areas;
  for (std::int64_t curve = 0; curve < curves_; ++curve) {
    const at::Tensor label = exact_labels(curve);
    const at::Tensor kept = at::nonzero(label.ge(0)).reshape({-1});
    const auto [score, order] = scores_->select(1, curve).index_select(0, kept).sort(0, /*descending=*/true);
    const at::Tensor positive = label.index_select(0, kept).index_select(0, order).to(at::kDouble);
    const std::int64_t samples = positive.size(0);
    // Equal scores are one point of the curve: the last of them.
    const at::Tensor last_of_equal =
        samples == 0 ? at::zeros({0}, at::kBool)
                     : at::constant_pad_nd(
                           score.narrow(0, 1, samples - 1).ne(score.narrow(0, 0, samples - 1)), {0, 1}, 1);
    const at::Tensor points = at::nonzero(last_of_equal.to(score.device())).reshape({-1});
    const at::Tensor tp = positive.cumsum(0).index_select(0, points).unsqueeze(0);
    const at::Tensor seen = points.add(1).to(at::kDouble).unsqueeze(0);
    const at::Tensor found = positive.sum().reshape({1});
    areas.push_back(area(tp, seen.sub(tp), found, found.neg().add(static_cast<double>(samples)), true));
  }
  return at::cat(areas);
}

at::Tensor CurveMetric::positives() const {
  if (counts_ != nullptr) return (*counts_)[1].sum(-1).to(at::kDouble);
  std::vector<at::Tensor> counts;
  for (std::int64_t curve = 0; curve < curves_; ++curve)
    counts.push_back(exact_labels(curve).eq(1).sum().to(at::kDouble));
  return at::stack(counts);
}

at::Tensor CurveMetric::compute() const {
  const at::Tensor areas = counts_ != nullptr ? binned_areas() : exact_areas();
  if (args_.task == ClassificationTask::binary) return areas[0];
  if (args_.average == Averaging::none) return areas;
  const at::Tensor known = areas.isnan().logical_not().to(at::kDouble);
  const at::Tensor weights = args_.average == Averaging::weighted ? positives().mul(known) : known;
  return safe_divide(areas.nan_to_num().mul(weights).sum(), weights.sum());
}

at::Tensor AUROC::area(const at::Tensor& tp, const at::Tensor& fp, const at::Tensor& positives,
                       const at::Tensor& negatives, bool exact) const {
  at::Tensor found = safe_divide(tp, positives.unsqueeze(1)), wrong = safe_divide(fp, negatives.unsqueeze(1));
  if (exact) {  // from the point that takes in no sample
    found = at::constant_pad_nd(found, {1, 0});
    wrong = at::constant_pad_nd(wrong, {1, 0});
  }
  return at::trapezoid(found, wrong, 1);
}

at::Tensor AveragePrecision::area(const at::Tensor& tp, const at::Tensor& fp, const at::Tensor& positives,
                                  const at::Tensor& /*negatives*/, bool exact) const {
  const at::Tensor precision = safe_divide(tp, tp.add(fp));
  const at::Tensor recall = at::constant_pad_nd(safe_divide(tp, positives.unsqueeze(1)), {1, 0});
  const at::Tensor sums = recall.diff(1, 1).mul(precision).sum(1);
  if (!exact || args().task != ClassificationTask::multiclass) return sums;
  return at::where(positives.eq(0), std::numeric_limits<double>::quiet_NaN(), sums);
}

}  // namespace cxtrain
