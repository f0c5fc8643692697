#pragma once

#include "cxtrain/config/field.h"
#include "cxtrain/metrics/metric.h"

/// Metrics of pictures, torchmetrics' image.
namespace cxtrain {

/// 10 log10(range^2 / mean squared error) over all elements, in decibels (base 10). `preds`, `target`: one
/// shape. All sums are in float64.
class PeakSignalNoiseRatio final : public Metric {
 public:
  struct Args {
    double data_range = 1;  ///< of the pictures, such as 255
    double base = 10;
    void fields(auto&& field) {
      field("data_range", data_range, "range of the pictures", Range::above(0));
      field("base", base, "base of the logarithm", Range::above(1));
    }
  };
  explicit PeakSignalNoiseRatio(const Args& args);
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override;

 private:
  Args args_;
  at::Tensor& squares_ = add_state("squares");
  at::Tensor& count_ = add_state("count");
};

/// The mean of the pictures' structural similarity (Wang et al. 2004,
/// https://doi.org/10.1109/TIP.2003.819861) with a Gaussian window. `preds`, `target`: [N, C, H, W], floating
/// point; H and W above half of the window, int(3.5 sigma + 0.5). Computed in the dtype of `preds` (16-bit
/// floats: in float32).
class StructuralSimilarityIndexMeasure final : public Metric {
 public:
  struct Args {
    double data_range = 1;
    double sigma = 1.5;  ///< of the window
    double k1 = 0.01, k2 = 0.03;
    void fields(auto&& field) {
      field("data_range", data_range, "range of the pictures", Range::above(0));
      field("sigma", sigma, "deviation of the window, in pixels", Range::above(0));
      field("k1", k1, "constant of the luminance", Range::at_least(0));
      field("k2", k2, "constant of the contrast", Range::at_least(0));
    }
  };
  explicit StructuralSimilarityIndexMeasure(const Args& args);
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override { return similarity_.div(pictures_); }

 private:
  Args args_;
  at::Tensor& similarity_ = add_state("similarity");
  at::Tensor& pictures_ = add_state("pictures");
};

}  // namespace cxtrain
