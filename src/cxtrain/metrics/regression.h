#pragma once

#include "cxtrain/config/field.h"
#include "cxtrain/metrics/metric.h"

/// Metrics of regressions, torchmetrics' regression. `preds` and `target` have one shape; all sums are in
/// float64.
namespace cxtrain {

/// The mean of (preds - target)^2 over all elements; its root if not `squared`.
class MeanSquaredError final : public Metric {
 public:
  struct Args {
    bool squared = true;  ///< false: the root (RMSE)
    void fields(auto&& field) { field("squared", squared, "the mean of squares, not its root"); }
  };
  explicit MeanSquaredError(const Args& args) : args_(args) {}
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override {
    const at::Tensor mean = squares_.div(count_);
    return args_.squared ? mean : mean.sqrt();
  }

 private:
  Args args_;
  at::Tensor& squares_ = add_state("squares");
  at::Tensor& count_ = add_state("count");
};

/// The mean of |preds - target| over all elements.
class MeanAbsoluteError final : public Metric {
 public:
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override { return sum_.div(count_); }

 private:
  at::Tensor& sum_ = add_state("sum");
  at::Tensor& count_ = add_state("count");
};

/// Inputs [N], or [N, outputs].
struct OutputsArgs {
  std::int64_t outputs = 1;
  void fields(auto&& field) { field("outputs", outputs, "columns of the inputs", Range::at_least(1)); }
};

/// Metrics of two variables for each output: state "moments" [outputs, 6] (metrics/moments.h), joined by
/// Chan's formula over batches and ranks.
class PairMoments : public Metric {
 public:
  /// `preds`, `target`: [N], or [N, outputs].
  void update(const at::Tensor& preds, const at::Tensor& target) final;

 protected:
  /// The variable a of each pair; b is the target.
  enum class FirstOfPair { prediction, residual };
  PairMoments(const char* metric, const OutputsArgs& args, FirstOfPair first);
  /// Each [outputs].
  struct Moments {
    at::Tensor count, mean_a, mean_b, c_aa, c_bb, c_ab;
  };
  Moments moments() const;

 private:
  const char* metric_;
  std::int64_t outputs_;
  FirstOfPair first_;
  at::Tensor& moments_;
};

/// 1 - sum (target - preds)^2 / sum (target - mean target)^2, the mean over the outputs.
class R2Score final : public PairMoments {
 public:
  using Args = OutputsArgs;
  explicit R2Score(const Args& args) : PairMoments("R2Score", args, FirstOfPair::residual) {}
  at::Tensor compute() const override;
};

/// 1 - Var(target - preds) / Var(target), the mean over the outputs.
class ExplainedVariance final : public PairMoments {
 public:
  using Args = OutputsArgs;
  explicit ExplainedVariance(const Args& args)
      : PairMoments("ExplainedVariance", args, FirstOfPair::residual) {}
  at::Tensor compute() const override;
};

/// Pearson's correlation: a number, or [outputs] of several. NaN if a variable does not vary.
class PearsonCorrCoef final : public PairMoments {
 public:
  using Args = OutputsArgs;
  explicit PearsonCorrCoef(const Args& args)
      : PairMoments("PearsonCorrCoef", args, FirstOfPair::prediction), one_number_(args.outputs == 1) {}
  at::Tensor compute() const override;

 private:
  bool one_number_;
};

/// The mean (or sum) of the cosines of rows: `preds`, `target` [N, D].
class CosineSimilarity final : public Metric {
 public:
  struct Args {
    bool mean = true;  ///< torchmetrics' default is the sum
    void fields(auto&& field) { field("mean", mean, "the mean of the rows, not their sum"); }
  };
  explicit CosineSimilarity(const Args& args) : args_(args) {}
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override { return args_.mean ? sum_.div(count_) : sum_; }

 private:
  Args args_;
  at::Tensor& sum_ = add_state("sum");
  at::Tensor& count_ = add_state("count");
};

}  // namespace cxtrain
