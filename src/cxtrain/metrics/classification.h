#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cxtrain/config/field.h"
#include "cxtrain/config/values.h"
#include "cxtrain/metrics/metric.h"

/// Metrics of classifiers, torchmetrics' classification.
///
/// Inputs of `update`, by task; `...` are further dimensions, such as the pixels of a segmentation:
///
/// * multiclass: preds are scores [N, C, ...], or classes [N, ...] of an integer dtype; target has classes
///   [N, ...]
/// * binary: preds are scores [N, ...], or 0 and 1 of an integer dtype; target has 0 and 1 [N, ...]
/// * multilabel: preds are scores [N, C, ...], or 0 and 1 of an integer dtype; target has 0 and 1
///   [N, C, ...]
///
/// Scores are probabilities or logits: if any score of a batch lies outside of [0, 1], all of them go through
/// sigmoid (multiclass: softmax, where probabilities matter), as in torchmetrics. A target of `ignore_index`
/// counts nowhere. A class outside of [0, C) throws TrainingError on the CPU, and ends the process on a GPU,
/// like LibTorch's losses. States are counts (int64), exact on any number of ranks.
namespace cxtrain {

enum class ClassificationTask { multiclass, binary, multilabel };
template <>
struct ChoiceOf<ClassificationTask> {
  static constexpr std::array<std::string_view, 3> words{"multiclass", "binary", "multilabel"};
};

/// From the counts of classes (labels) to the result. A binary task has one result anyway.
enum class Averaging {
  micro,     ///< the counts of all classes, added
  macro,     ///< the mean of the classes that occur
  weighted,  ///< the mean of the classes, weighted by how often each is the target
  none       ///< no average: one number for each class [C]
};
template <>
struct ChoiceOf<Averaging> {
  static constexpr std::array<std::string_view, 4> words{"micro", "macro", "weighted", "none"};
};

/// Arguments of the scores of counts.
struct ClassificationArgs {
  std::int64_t classes = 2;  ///< or labels; of no effect in a binary task
  ClassificationTask task = ClassificationTask::multiclass;
  Averaging average = Averaging::micro;
  std::int64_t top_k = 1;            ///< multiclass: right if the target is among the k highest scores
  double threshold = 0.5;            ///< binary, multilabel: 1 from above this probability
  std::int64_t ignore_index = -100;  ///< as in LibTorch's losses

  void fields(auto&& field) {
    field("classes", classes, "number of classes or labels", Range::at_least(2));
    field("task", task, "kind of targets");
    field("average", average, "average over the classes");
    field("top_k", top_k, "highest scores that may have the target", Range::at_least(1));
    field("threshold", threshold, "probability from above which a label is predicted", Range::between(0, 1));
    field("ignore_index", ignore_index, "target that counts nowhere");
  }
};

/// Counts of true and false positives and negatives by class: state "counts" [4, C] (binary: [4, 1]).
class StatScores : public Metric {
 public:
  using Args = ClassificationArgs;
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override;

 protected:
  /// Throws ConfigError for arguments out of range; `metric` names the class.
  StatScores(const char* metric, const Args& args);
  /// In float64, each [C], or [] over all classes.
  struct Counts {
    at::Tensor tp, fp, tn, fn;
  };
  /// The score of each class.
  virtual at::Tensor score(const Counts& counts) const = 0;
  /// Whether a class is left out of a macro average if it is never the target; else only if it is never
  /// predicted, either.
  virtual bool needs_target() const { return args_.top_k > 1; }
  const Args& args() const { return args_; }

 private:
  void count_classes(const at::Tensor& preds, const at::Tensor& target);
  void count_labels(const at::Tensor& preds, const at::Tensor& target);

  const char* metric_;
  Args args_;
  at::Tensor& counts_;
};

/// The share of right predictions: tp / (tp + fn), and (tp + tn) / all for binary and multilabel tasks.
/// torchmetrics' Accuracy.
class Accuracy final : public StatScores {
 public:
  explicit Accuracy(const Args& args) : StatScores("Accuracy", args) {}

 private:
  at::Tensor score(const Counts& counts) const override;
};

/// tp / (tp + fp); 0 if nothing is predicted. torchmetrics' Precision.
class PrecisionScore final : public StatScores {
 public:
  explicit PrecisionScore(const Args& args) : StatScores("PrecisionScore", args) {}

 private:
  at::Tensor score(const Counts& counts) const override;
};

/// tp / (tp + fn); 0 if there is nothing to find. torchmetrics' Recall.
class RecallScore final : public StatScores {
 public:
  explicit RecallScore(const Args& args) : StatScores("RecallScore", args) {}

 private:
  at::Tensor score(const Counts& counts) const override;
};

/// 2 tp / (2 tp + fp + fn). torchmetrics' F1Score.
class F1Score final : public StatScores {
 public:
  explicit F1Score(const Args& args) : StatScores("F1Score", args) {}

 private:
  at::Tensor score(const Counts& counts) const override;
  bool needs_target() const override { return false; }
};

/// Division of a confusion matrix.
enum class Normalize {
  none,
  target,     ///< by the sums of rows: how the samples of a class were predicted
  predicted,  ///< by the sums of columns
  all         ///< by the number of samples
};
template <>
struct ChoiceOf<Normalize> {
  static constexpr std::array<std::string_view, 4> words{"none", "target", "predicted", "all"};
};

/// Counts of pairs: state "pairs" [C, C] with row target and column prediction; binary [2, 2]; multilabel
/// [C, 2, 2], a matrix for each label. 8 C^2 bytes.
class ConfusionCounts : public Metric {
 public:
  void update(const at::Tensor& preds, const at::Tensor& target) override;

 protected:
  struct Counting {
    std::int64_t classes;
    ClassificationTask task;
    double threshold;
    std::int64_t ignore_index;
  };
  ConfusionCounts(const char* metric, const Counting& counting);
  const Counting& counting() const { return counting_; }
  const at::Tensor& pairs() const { return pairs_; }

 private:
  const char* metric_;
  Counting counting_;
  at::Tensor& pairs_;
};

/// The matrix of targets and predictions: int64, or float64 if normalised. Not one number: read `compute()`
/// in `on_validation_epoch_end`. torchmetrics' ConfusionMatrix.
class ConfusionMatrix final : public ConfusionCounts {
 public:
  struct Args {
    std::int64_t classes = 2;  ///< or labels; of no effect in a binary task
    ClassificationTask task = ClassificationTask::multiclass;
    double threshold = 0.5;
    std::int64_t ignore_index = -100;
    Normalize normalize = Normalize::none;

    void fields(auto&& field) {
      field("classes", classes, "number of classes or labels", Range::at_least(2));
      field("task", task, "kind of targets");
      field("threshold", threshold, "probability from above which a label is predicted",
            Range::between(0, 1));
      field("ignore_index", ignore_index, "target that counts nowhere");
      field("normalize", normalize, "division of the matrix");
    }
  };
  /// Throws ConfigError for arguments out of range, as all metrics do.
  explicit ConfusionMatrix(const Args& args);
  at::Tensor compute() const override;

 private:
  Normalize normalize_;
};

/// Intersection over union, tp / (tp + fp + fn), by class. torchmetrics' JaccardIndex.
class JaccardIndex final : public ConfusionCounts {
 public:
  struct Args {
    std::int64_t classes = 2;  ///< or labels; of no effect in a binary task
    ClassificationTask task = ClassificationTask::multiclass;
    Averaging average = Averaging::macro;
    double threshold = 0.5;
    std::int64_t ignore_index = -100;

    void fields(auto&& field) {
      field("classes", classes, "number of classes or labels", Range::at_least(2));
      field("task", task, "kind of targets");
      field("average", average, "average over the classes");
      field("threshold", threshold, "probability from above which a label is predicted",
            Range::between(0, 1));
      field("ignore_index", ignore_index, "target that counts nowhere");
    }
  };
  explicit JaccardIndex(const Args& args);
  at::Tensor compute() const override;

 private:
  Averaging average_;
};

/// 2 |prediction and target| / (|prediction| + |target|) of classes in pictures. torchmetrics' DiceScore with
/// `input_format="index"`; scores [N, C, ...] are taken, too. State: sums by class [3, C].
class DiceScore final : public Metric {
 public:
  struct Args {
    std::int64_t classes = 2;
    Averaging average = Averaging::macro;
    bool samplewise = true;  ///< the mean of the samples' scores; else the score of all pixels
    bool include_background = true;

    void fields(auto&& field) {
      field("classes", classes, "number of classes", Range::at_least(2));
      field("average", average, "average over the classes");
      field("samplewise", samplewise, "mean of the scores of the samples, not the score of all pixels");
      field("include_background", include_background, "class 0 counts");
    }
  };
  explicit DiceScore(const Args& args);
  /// preds: classes [N, ...] or scores [N, C, ...]; target: classes [N, ...].
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override;

 private:
  at::Tensor averaged(const at::Tensor& overlap, const at::Tensor& sizes, const at::Tensor& support) const;

  Args args_;
  at::Tensor& sums_;  ///< [3, C]: samplewise: scores, and samples that have one; else overlap, sizes, support
};

/// The norm of the bins' differences between confidence and accuracy.
enum class CalibrationNorm { l1, l2, max };
template <>
struct ChoiceOf<CalibrationNorm> {
  static constexpr std::array<std::string_view, 3> words{"l1", "l2", "max"};
};

/// Expected (l1, l2) or maximum calibration error over bins of equal width (Guo et al. 2017,
/// https://arxiv.org/abs/1706.04599). Tasks: multiclass, binary. torchmetrics' CalibrationError, which keeps
/// all samples; state here: sums of the bins [bins + 1, 3].
class CalibrationError final : public Metric {
 public:
  struct Args {
    ClassificationTask task = ClassificationTask::multiclass;
    std::int64_t bins = 15;
    CalibrationNorm norm = CalibrationNorm::l1;
    std::int64_t ignore_index = -100;

    void fields(auto&& field) {
      field("task", task, "kind of targets");
      field("bins", bins, "bins of confidence", Range::at_least(1));
      field("norm", norm, "norm of the differences");
      field("ignore_index", ignore_index, "target that counts nowhere");
    }
  };
  explicit CalibrationError(const Args& args);
  /// preds: scores [N, C] (binary: [N]); target: [N].
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override;

 private:
  Args args_;
  at::Tensor& bins_;  ///< float64: confidences, right predictions, samples
};

}  // namespace cxtrain
