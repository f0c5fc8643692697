#include "cxtrain/metrics/retrieval.h"

#include <ATen/ops/_unique2.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "cxtrain/base/error.h"
#include "cxtrain/metrics/metric_args.h"

namespace cxtrain {

RetrievalRecall::RetrievalRecall(const Args& args) : args_(checked_metric_args("RetrievalRecall", args)) {
  if (!args.by_document) return;
  scores_ = &add_state("scores", at::empty({0}, at::kFloat), Reduce::cat);
  relevant_ = &add_state("relevant", at::empty({0, 2}, at::kLong), Reduce::cat);
}

at::Tensor RetrievalRecall::recall_of_rows(const at::Tensor& preds, const at::Tensor& target) const {
  const at::Tensor best = std::get<1>(at::topk(preds, std::min(args_.top_k, preds.size(1)), 1));
  const at::Tensor found = target.gather(1, best).sum(1), all = target.sum(1);
  return at::where(all.gt(0), found.div(all), 0.0).sum();
}

void RetrievalRecall::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  if (preds.dim() != 2 || preds.sizes() != target.sizes())
    throw TrainingError("RetrievalRecall: preds and target have to be [queries, documents]",
                        MessageCode::log_misuse);
  sum_ += recall_of_rows(here(preds), here(target).ne(0).to(at::kDouble));
  queries_ += preds.size(0);
}

void RetrievalRecall::update(const at::Tensor& preds, const at::Tensor& target, const at::Tensor& queries) {
  const Updating updating(*this);
  if (scores_ == nullptr)
    throw TrainingError("RetrievalRecall: numbers of queries need the argument by_document",
                        MessageCode::log_misuse);
  if (preds.numel() != target.numel() || preds.numel() != queries.numel())
    throw TrainingError("RetrievalRecall: preds, target and queries have one element for each document",
                        MessageCode::log_misuse);
  append(*scores_, here(preds).reshape({-1}));
  const at::Tensor relevant = here(target).reshape({-1}).ne(0).to(at::kLong);
  append(*relevant_, at::stack({here(queries).reshape({-1}).to(at::kLong), relevant}, 1));
}

/// Ranks the documents of each query by two stable sorts: by score, then by query.
at::Tensor RetrievalRecall::compute() const {
  if (scores_ == nullptr || scores_->size(0) == 0) return sum_.div(queries_);
  const at::Tensor by_score = scores_->argsort(/*stable=*/true, 0, /*descending=*/true);
  at::Tensor documents = relevant_->index_select(0, by_score);
  documents = documents.index_select(0, documents.select(1, 0).argsort(/*stable=*/true, 0, false));
  const auto [queries, query, sizes] =
      at::_unique2(documents.select(1, 0), /*sorted=*/true, /*return_inverse=*/true, /*return_counts=*/true);
  const at::Tensor begins = sizes.cumsum(0).sub(sizes);
  const at::Tensor place = at::arange(documents.size(0), sizes.options()).sub(begins.index_select(0, query));
  const at::Tensor relevant = documents.select(1, 1).to(at::kDouble);
  const auto sum_by_query = [queries = queries.size(0), query = query](const at::Tensor& values) {
    return at::zeros({queries}, values.options()).index_add(0, query, values);
  };
  const at::Tensor all = sum_by_query(relevant);
  const at::Tensor found = sum_by_query(relevant.mul(place.lt(args_.top_k)));
  const at::Tensor recall = at::where(all.gt(0), found.div(all), 0.0);
  return sum_.add(recall.sum()).div(queries_.add(queries.size(0)));
}

}  // namespace cxtrain
