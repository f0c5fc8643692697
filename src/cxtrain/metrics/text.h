#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/config/field.h"
#include "cxtrain/metrics/metric.h"

/// Metrics of texts and token sequences, torchmetrics' text. Sums are in float64.
namespace cxtrain {

/// exp(mean negative log-probability of the target tokens).
class Perplexity final : public Metric {
 public:
  struct Args {
    std::int64_t ignore_index = -100;  ///< as in LibTorch's losses
    void fields(auto&& field) { field("ignore_index", ignore_index, "target that counts nowhere"); }
  };
  explicit Perplexity(const Args& args) : args_(args) {}
  /// preds: logits [..., vocabulary], floating point; target: tokens [...].
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  at::Tensor compute() const override { return sum_.div(count_).exp(); }

 private:
  Args args_;
  at::Tensor& sum_ = add_state("sum");
  at::Tensor& count_ = add_state("count");
};

/// Levenshtein's distance: the least number of insertions, deletions and substitutions from prediction to
/// target.
class EditDistance final : public Metric {
 public:
  struct Args {
    std::int64_t substitution_cost = 1;
    bool mean = true;  ///< over the sequences; else the sum
    void fields(auto&& field) {
      field("substitution_cost", substitution_cost, "cost of a substitution", Range::at_least(0));
      field("mean", mean, "the mean over the sequences, not the sum");
    }
  };
  explicit EditDistance(const Args& args);
  using Metric::update;
  /// Of characters: the code points of UTF-8. Both of one length.
  void update(std::span<const std::string> preds, std::span<const std::string> target);
  /// Of tokens.
  void update(std::span<const std::vector<std::int64_t>> preds,
              std::span<const std::vector<std::int64_t>> target);
  at::Tensor compute() const override { return args_.mean ? edits_.div(sequences_) : edits_; }

 private:
  Args args_;
  at::Tensor& edits_ = add_state("edits");
  at::Tensor& sequences_ = add_state("sequences");
};

/// Edits of words divided by the words of the targets. Words are separated by white space.
class WordErrorRate final : public Metric {
 public:
  using Metric::update;
  /// Both of one length.
  void update(std::span<const std::string> preds, std::span<const std::string> target);
  at::Tensor compute() const override { return edits_.div(words_); }

 private:
  at::Tensor& edits_ = add_state("edits");
  at::Tensor& words_ = add_state("words");
};

}  // namespace cxtrain
