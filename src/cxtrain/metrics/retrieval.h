#pragma once

#include <cstdint>

#include "cxtrain/config/field.h"
#include "cxtrain/metrics/metric.h"

namespace cxtrain {

/// The share of a query's relevant documents that are among its k highest scores, the mean over the queries:
/// torchmetrics' RetrievalRecall. A query without a relevant document scores 0. torchmetrics ignores relevant
/// documents whose score is not above 0; this class counts them.
///
/// Queries come whole, a row each, and the states do not grow; or document by document, with the number of
/// their query, and the states keep all of them: 20 bytes a document on each rank, those of all ranks at the
/// end of an epoch.
class RetrievalRecall final : public Metric {
 public:
  struct Args {
    std::int64_t top_k = 10;
    bool by_document = false;  ///< documents of a query come in several batches or on several ranks
    void fields(auto&& field) {
      field("top_k", top_k, "highest scores that count", Range::at_least(1));
      field("by_document", by_document, "documents come with the number of their query");
    }
  };
  explicit RetrievalRecall(const Args& args);
  /// Whole queries: scores and relevance (0 and 1) of their documents, [queries, documents].
  void update(const at::Tensor& preds, const at::Tensor& target) override;
  /// Documents: scores, relevance, and numbers of their queries, [documents] each. With `by_document` only.
  void update(const at::Tensor& preds, const at::Tensor& target, const at::Tensor& queries);
  at::Tensor compute() const override;

 private:
  /// The sum of the queries' scores.
  at::Tensor recall_of_rows(const at::Tensor& preds, const at::Tensor& target) const;

  Args args_;
  at::Tensor& sum_ = add_state("sum");
  at::Tensor& queries_ = add_state("queries");
  at::Tensor* scores_ = nullptr;    ///< [documents], by document
  at::Tensor* relevant_ = nullptr;  ///< [documents, 2]: query, relevance
};

}  // namespace cxtrain
