#include "cxtrain/metrics/classification.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/nanmean.h>
#include <ATen/ops/nansum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "cxtrain/metrics/class_inputs.h"
#include "cxtrain/metrics/metric_args.h"

namespace cxtrain {

using class_inputs::collector;
using class_inputs::safe_divide;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Labels of a task that has no classes.
std::int64_t label_count(ClassificationTask task, std::int64_t classes) {
  return task == ClassificationTask::binary ? 1 : classes;
}

at::Tensor no_pairs(std::int64_t classes, ClassificationTask task) {
  if (task == ClassificationTask::multilabel) return at::zeros({classes, 2, 2}, at::kLong);
  const std::int64_t size = task == ClassificationTask::binary ? 2 : classes;
  return at::zeros({size, size}, at::kLong);
}

/// The average of the scores of classes, by weights that are 0 for a class that does not take part.
at::Tensor weighted_mean(const at::Tensor& scores, const at::Tensor& weights) {
  return safe_divide(scores.mul(weights).sum(), weights.sum());
}

}  // namespace

StatScores::StatScores(const char* metric, const Args& args)
    : metric_(metric),
      args_(checked_metric_args(metric, args)),
      counts_(add_state("counts", at::zeros({4, label_count(args.task, args.classes)}, at::kLong))) {
  if (args.top_k > args.classes) refuse_metric_argument(metric, "top_k", "is above `classes`");
}

void StatScores::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  if (args_.task == ClassificationTask::multiclass) {
    count_classes(here(preds), here(target));
  } else {
    count_labels(here(preds), here(target));
  }
}

/// Ignored samples go into a bin of their own.
void StatScores::count_classes(const at::Tensor& preds, const at::Tensor& target) {
  const std::int64_t classes = args_.classes;
  const auto [predicted, truth, valid] =
      class_inputs::classes_of(metric_, preds, target, classes, args_.top_k, args_.ignore_index);
  const auto count = [&](const at::Tensor& counts, const at::Tensor& labels) {
    return collector(at::where(counts, labels, classes), classes + 1).narrow(0, 0, classes);
  };
  const at::Tensor targets = count(valid, truth), predictions = count(valid, predicted);
  const at::Tensor tp = count(valid.logical_and(predicted.eq(truth)), truth);
  const at::Tensor fp = predictions.sub(tp), fn = targets.sub(tp);
  const at::Tensor tn = valid.sum().sub(tp.add(fp).add(fn));
  counts_ += at::stack({tp, fp, tn, fn});
}

void StatScores::count_labels(const at::Tensor& preds, const at::Tensor& target) {
  const std::int64_t labels = label_count(args_.task, args_.classes);
  const auto [p, t, valid] =
      class_inputs::labels_of(metric_, preds, target, labels, args_.threshold, args_.ignore_index);
  const auto count = [valid = valid](const at::Tensor& predicted, const at::Tensor& truth) {
    return predicted.logical_and(truth).logical_and(valid).sum(0);
  };
  const at::Tensor not_p = p.logical_not(), not_t = t.logical_not();
  counts_ += at::stack({count(p, t), count(p, not_t), count(not_p, not_t), count(not_p, t)});
}

at::Tensor StatScores::compute() const {
  at::Tensor counts = counts_.to(at::kDouble);
  const bool one = args_.task == ClassificationTask::binary || args_.average == Averaging::micro;
  if (one) counts = counts.sum(1);
  const Counts of_classes{counts[0], counts[1], counts[2], counts[3]};
  const at::Tensor scores = score(of_classes);
  if (one || args_.average == Averaging::none) return scores;
  const at::Tensor targets = of_classes.tp.add(of_classes.fn);
  if (args_.average == Averaging::weighted) return weighted_mean(scores, targets);
  if (args_.task != ClassificationTask::multiclass) return scores.mean();
  const at::Tensor occurs = needs_target() ? targets : targets.add(of_classes.fp);
  return weighted_mean(scores, occurs.ne(0).to(at::kDouble));
}

at::Tensor Accuracy::score(const Counts& counts) const {
  const at::Tensor targets = counts.tp.add(counts.fn);
  if (args().task == ClassificationTask::multiclass) return safe_divide(counts.tp, targets);
  return safe_divide(counts.tp.add(counts.tn), targets.add(counts.fp).add(counts.tn));
}

at::Tensor PrecisionScore::score(const Counts& counts) const {
  return safe_divide(counts.tp, counts.tp.add(counts.fp));
}

at::Tensor RecallScore::score(const Counts& counts) const {
  return safe_divide(counts.tp, counts.tp.add(counts.fn));
}

at::Tensor F1Score::score(const Counts& counts) const {
  const at::Tensor twice = counts.tp.mul(2);
  return safe_divide(twice, twice.add(counts.fp).add(counts.fn));
}

ConfusionCounts::ConfusionCounts(const char* metric, const Counting& counting)
    : metric_(metric),
      counting_(counting),
      pairs_(add_state("pairs", no_pairs(counting.classes, counting.task))) {}

void ConfusionCounts::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  const auto [classes, task, threshold, ignore_index] = counting_;
  const std::int64_t cells = pairs_.numel();
  at::Tensor cell, counts;
  if (task == ClassificationTask::multiclass) {
    const auto [predicted, truth, valid] =
        class_inputs::classes_of(metric_, here(preds), here(target), classes, 1, ignore_index);
    cell = truth.mul(classes).add(predicted);
    counts = valid;
  } else {
    const std::int64_t labels = label_count(task, classes);
    const auto [predicted, truth, valid] =
        class_inputs::labels_of(metric_, here(preds), here(target), labels, threshold, ignore_index);
    const at::Tensor matrix = at::arange(labels, pairs_.options()).mul(4);
    cell = matrix.add(truth.to(at::kLong), 2).add(predicted.to(at::kLong));
    counts = valid;
  }
  pairs_ += collector(at::where(counts, cell, cells), cells + 1).narrow(0, 0, cells).reshape(pairs_.sizes());
}

ConfusionMatrix::ConfusionMatrix(const Args& args)
    : ConfusionCounts("ConfusionMatrix", {checked_metric_args("ConfusionMatrix", args).classes, args.task,
                                          args.threshold, args.ignore_index}),
      normalize_(args.normalize) {}

at::Tensor ConfusionMatrix::compute() const {
  if (normalize_ == Normalize::none) return pairs();
  const at::Tensor matrix = pairs().to(at::kDouble);
  switch (normalize_) {
    case Normalize::target:
      return safe_divide(matrix, matrix.sum(-1, /*keepdim=*/true));
    case Normalize::predicted:
      return safe_divide(matrix, matrix.sum(-2, /*keepdim=*/true));
    default:
      return safe_divide(matrix, matrix.sum({-2, -1}, /*keepdim=*/true));
  }
}

JaccardIndex::JaccardIndex(const Args& args)
    : ConfusionCounts("JaccardIndex", {checked_metric_args("JaccardIndex", args).classes, args.task,
                                       args.threshold, args.ignore_index}),
      average_(args.average) {}

at::Tensor JaccardIndex::compute() const {
  const at::Tensor matrix = pairs().to(at::kDouble);
  const ClassificationTask task = counting().task;
  if (task == ClassificationTask::binary) return safe_divide(matrix[1][1], matrix.sum().sub(matrix[0][0]));
  const bool multiclass = task == ClassificationTask::multiclass;
  const at::Tensor both = multiclass ? matrix.diagonal() : matrix.select(1, 1).select(1, 1);
  const at::Tensor targets = multiclass ? matrix.sum(1) : matrix.select(1, 1).sum(1);
  const at::Tensor predicted = multiclass ? matrix.sum(0) : matrix.select(2, 1).sum(1);
  const at::Tensor either = targets.add(predicted).sub(both);
  at::Tensor takes_part = at::ones_like(both);
  const bool ignores_class = counting().ignore_index >= 0 && counting().ignore_index < matrix.size(0);
  if (ignores_class) takes_part[counting().ignore_index] = 0;
  if (average_ == Averaging::micro) return safe_divide(both.sum(), either.mul(takes_part).sum());
  const at::Tensor scores = safe_divide(both, either);
  if (average_ == Averaging::none) return scores;
  if (average_ == Averaging::weighted) return weighted_mean(scores, targets);
  if (multiclass) takes_part = takes_part.mul(either.ne(0));
  return weighted_mean(scores, takes_part);
}

DiceScore::DiceScore(const Args& args)
    : args_(checked_metric_args("DiceScore", args)),
      sums_(
          add_state("sums", at::zeros({3, args.classes - (args.include_background ? 0 : 1)}, at::kDouble))) {}

void DiceScore::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  const std::int64_t classes = args_.classes, samples = target.size(0);
  const auto [predicted, truth, valid] = class_inputs::classes_of(
      "DiceScore", here(preds), here(target), classes, 1, std::numeric_limits<std::int64_t>::min());
  const at::Tensor offset =
      at::arange(samples, truth.options()).mul(classes).unsqueeze(1);  // a bin for each sample and class
  const auto bins = [&](const at::Tensor& labels) { return labels.reshape({samples, -1}).add(offset); };
  const auto count = [&](const at::Tensor& numbers) {
    at::Tensor counts = collector(numbers, samples * classes + 1).narrow(0, 0, samples * classes);
    counts = counts.reshape({samples, classes}).to(at::kDouble);
    return args_.include_background ? counts : counts.narrow(1, 1, classes - 1);
  };
  const at::Tensor support = count(bins(truth));
  const at::Tensor sizes = support.add(count(bins(predicted)));
  const at::Tensor hit = predicted.eq(truth).reshape({samples, -1});
  const at::Tensor overlap = count(at::where(hit, bins(truth), samples * classes)).mul(2);
  if (!args_.samplewise) {
    sums_ += at::stack({overlap.sum(0), sizes.sum(0), support.sum(0)});
    return;
  }
  const at::Tensor scores = averaged(overlap, sizes, support).reshape({samples, -1});
  const std::int64_t columns = scores.size(1);
  sums_[0].narrow(0, 0, columns) += at::nansum(scores, 0);
  sums_[1].narrow(0, 0, columns) += scores.isnan().logical_not().sum(0);
}

/// Of each row: [rows], or [rows, C] without an average. NaN where there is nothing to score.
at::Tensor DiceScore::averaged(const at::Tensor& overlap, const at::Tensor& sizes,
                               const at::Tensor& support) const {
  if (args_.average == Averaging::micro) return overlap.sum(-1).div(sizes.sum(-1));
  const at::Tensor scores = overlap.div(sizes);
  if (args_.average == Averaging::none) return scores;
  if (args_.average == Averaging::macro) return at::nanmean(scores, -1);
  const at::Tensor weights = support.div(support.sum(-1, /*keepdim=*/true));
  const at::Tensor nothing = scores.isnan().all(-1);
  return at::where(nothing, kNan, at::nansum(scores.mul(weights), -1));
}

at::Tensor DiceScore::compute() const {
  const bool each = args_.average == Averaging::none;
  if (!args_.samplewise) return averaged(sums_[0], sums_[1], sums_[2]);
  const at::Tensor means = sums_[0].div(sums_[1]);
  return each ? means : means[0];
}

CalibrationError::CalibrationError(const Args& args)
    : args_(checked_metric_args("CalibrationError", args)),
      bins_(add_state("bins", at::zeros({args.bins + 1, 3}, at::kDouble))) {
  if (args.task == ClassificationTask::multilabel)
    refuse_metric_argument("CalibrationError", "task", "is multilabel; use multiclass or binary");
}

void CalibrationError::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  const at::Tensor truth = here(target).reshape({-1});
  at::Tensor confidence, right;
  if (args_.task == ClassificationTask::binary) {
    confidence = class_inputs::sigmoid_if_needed(here(preds)).reshape({-1});
    right = truth;
  } else {
    const at::Tensor rows = class_inputs::rows_of("CalibrationError", here(preds), preds.size(1));
    at::Tensor predicted;
    std::tie(confidence, predicted) = class_inputs::softmax_if_needed(rows).max(1);
    right = predicted.eq(truth);
  }
  confidence = confidence.to(at::kFloat);  // as torchmetrics: the dtype decides about bins
  const at::Tensor edges = at::linspace(0, 1, args_.bins + 1, confidence.options());
  const at::Tensor bin = at::bucketize(confidence, edges, /*out_int32=*/false, /*right=*/true).sub(1);
  const at::Tensor valid = truth.ne(args_.ignore_index);
  const at::Tensor columns =
      at::stack({confidence.to(at::kDouble), right.to(at::kDouble), at::ones_like(truth, at::kDouble)}, 1)
          .mul(valid.unsqueeze(1));
  // A product of matrices and no scatter, whose order of additions differs from run to run on a GPU.
  const at::Tensor in_bin = bin.unsqueeze(0).eq(at::arange(args_.bins + 1, bin.options()).unsqueeze(1));
  bins_ += in_bin.to(at::kDouble).matmul(columns);
}

at::Tensor CalibrationError::compute() const {
  const at::Tensor samples = bins_.select(1, 2), share = safe_divide(samples, samples.sum());
  const at::Tensor difference =
      safe_divide(bins_.select(1, 1), samples).sub(safe_divide(bins_.select(1, 0), samples)).abs();
  switch (args_.norm) {
    case CalibrationNorm::l1:
      return difference.mul(share).sum();
    case CalibrationNorm::l2:
      return difference.square().mul(share).sum().sqrt();
    default:
      return difference.max();
  }
}

}  // namespace cxtrain
