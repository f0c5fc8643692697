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
  explicit MeanSquaredError(const Args& args);
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override;

 private:
  Args args_;
  at::Tensor& squares_;
  at::Tensor& count_;
};

/// The mean of |preds - target| over all elements.
class MeanAbsoluteError final : public Metric {
 public:
  MeanAbsoluteError();
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override;

 private:
  at::Tensor& sum_;
  at::Tensor& count_;
};

/// Metrics of two variables for each output: state "moments" [outputs, 6] (metrics/moments.h), joined by
/// Chan's formula over batches and ranks.
class PairMoments : public Metric {
 protected:
  PairMoments(const char* metric, std::int64_t outputs);
  /// `a`, `b`: [N], or [N, outputs].
  void add_pairs(const at::Tensor& a, const at::Tensor& b);
  /// Each [outputs].
  struct Moments {
    at::Tensor count, mean_a, mean_b, c_aa, c_bb, c_ab;
  };
  Moments moments() const;

 private:
  const char* metric_;
  std::int64_t outputs_;
  at::Tensor& moments_;
};

/// Inputs [N], or [N, outputs].
struct OutputsArgs {
  std::int64_t outputs = 1;
  void fields(auto&& field) { field("outputs", outputs, "columns of the inputs", Range::at_least(1)); }
};

/// 1 - sum (target - preds)^2 / sum (target - mean target)^2, the mean over the outputs.
class R2Score final : public PairMoments {
 public:
  using Args = OutputsArgs;
  explicit R2Score(const Args& args);
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override;
};

/// 1 - Var(target - preds) / Var(target), the mean over the outputs.
class ExplainedVariance final : public PairMoments {
 public:
  using Args = OutputsArgs;
  explicit ExplainedVariance(const Args& args);
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override;
};

/// Pearson's correlation: a number, or [outputs] of several. NaN if a variable does not vary.
class PearsonCorrCoef final : public PairMoments {
 public:
  using Args = OutputsArgs;
  explicit PearsonCorrCoef(const Args& args);
  void update(const at::Tensor& preds, const at::Tensor& target) override;
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
  explicit CosineSimilarity(const Args& args);
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override;

 private:
  Args args_;
  at::Tensor& sum_;
  at::Tensor& count_;
};

}  // namespace cxtrain
