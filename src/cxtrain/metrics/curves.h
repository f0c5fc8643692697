#pragma once

#include "cxtrain/metrics/classification.h"

/// Areas under curves of classifiers, torchmetrics' AUROC and AveragePrecision. Inputs and tasks are those of
/// classification.h; a task of several classes or labels has a curve for each, class against rest.
///
/// With `thresholds` n the curve has n points, at 0, 1/(n-1), ... 1; the state "counts" [2, L, n + 1] does
/// not grow with the data. With 0 the curve is exact, and the states "scores" (float32) and "labels" keep
/// every sample: 4 L + 8 bytes a sample on each rank, and those of all ranks at the end of an epoch
/// (multilabel: 12 L).
namespace cxtrain {

struct CurveArgs {
  std::int64_t classes = 2;  ///< or labels; of no effect in a binary task
  ClassificationTask task = ClassificationTask::multiclass;
  Averaging average = Averaging::macro;  ///< not micro
  std::int64_t thresholds = 200;         ///< 0: exact
  std::int64_t ignore_index = -100;

  void fields(auto&& field) {
    field("classes", classes, "number of classes or labels", Range::at_least(2));
    field("task", task, "kind of targets");
    field("average", average, "average over the classes");
    field("thresholds", thresholds, "points of the curve; 0: exact, keeps every sample", Range::at_least(0));
    field("ignore_index", ignore_index, "target that counts nowhere");
  }
};

/// The counts of curves.
class CurveMetric : public Metric {
 public:
  using Args = CurveArgs;
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  /// In float64. A class without positives scores 0; an exact average precision of classes leaves it out.
  at::Tensor compute() const override;

 protected:
  CurveMetric(const char* metric, const Args& args);
  /// The area of curves [L]. `tp`, `fp` [L, points]: true and false positives of falling thresholds, in
  /// float64. `exact`: the last threshold takes in all samples.
  virtual at::Tensor area(const at::Tensor& tp, const at::Tensor& fp, const at::Tensor& positives,
                          const at::Tensor& negatives, bool exact) const = 0;
  const Args& args() const { return args_; }

 private:
  /// Scores [M, L], positives [M, L] (bool) and which count [M, L].
  struct Samples {
    at::Tensor scores, positive, valid;
  };
  Samples samples_of(const at::Tensor& preds, const at::Tensor& target) const;
  at::Tensor binned_areas() const;
  at::Tensor exact_areas() const;
  at::Tensor positives() const;
  /// -1 ignored, else 0 or 1, of one class.
  at::Tensor exact_labels(std::int64_t label) const;

  const char* metric_;
  Args args_;
  std::int64_t curves_;
  at::Tensor* counts_ = nullptr;  ///< [2, L, thresholds + 1]: negatives and positives by thresholds passed
  at::Tensor* scores_ = nullptr;  ///< [samples, L]
  at::Tensor* labels_ = nullptr;  ///< [samples], or [samples, L] of labels; -1: ignored
};

/// The area under the curve of true against false positive rates (trapezoids).
class AUROC final : public CurveMetric {
 public:
  explicit AUROC(const Args& args) : CurveMetric("AUROC", args) {}

 private:
  at::Tensor area(const at::Tensor& tp, const at::Tensor& fp, const at::Tensor& positives,
                  const at::Tensor& negatives, bool exact) const override;
};

/// The sum of precision times the increase of recall, over falling thresholds.
class AveragePrecision final : public CurveMetric {
 public:
  explicit AveragePrecision(const Args& args) : CurveMetric("AveragePrecision", args) {}

 private:
  at::Tensor area(const at::Tensor& tp, const at::Tensor& fp, const at::Tensor& positives,
                  const at::Tensor& negatives, bool exact) const override;
};

}  // namespace cxtrain
