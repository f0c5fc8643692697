#include "cxtrain/metrics/class_inputs.h"

#include <ATen/ops/_assert_async.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>

#include "cxtrain/base/error.h"

namespace cxtrain::class_inputs {
namespace {

[[noreturn]] void refuse_shapes(const char* metric, const at::Tensor& preds, const at::Tensor& target) {
  throw TrainingError(
      c10::str(metric, ": preds of shape ", preds.sizes(), " do not fit a target of shape ", target.sizes()),
      MessageCode::log_misuse);
}

at::Tensor in_float(const at::Tensor& scores) {
  return at::isReducedFloatingType(scores.scalar_type()) ? scores.to(at::kFloat) : scores;
}

at::Tensor any_outside(const at::Tensor& scores) { return scores.lt(0).logical_or(scores.gt(1)).any(); }

}  // namespace

at::Tensor rows_of(const char* metric, const at::Tensor& scores, std::int64_t classes) {
  if (scores.dim() < 2 || scores.size(1) != classes) {
    throw TrainingError(c10::str(metric, ": preds of shape ", scores.sizes(), ", and `classes` is ", classes),
                        MessageCode::log_misuse);
  }
  return scores.movedim(1, -1).reshape({-1, classes});
}

at::Tensor softmax_if_needed(const at::Tensor& scores) {
  const at::Tensor given = in_float(scores);
  return at::where(any_outside(given), at::softmax(given, 1), given);
}

at::Tensor sigmoid_if_needed(const at::Tensor& scores) {
  const at::Tensor given = in_float(scores);
  return at::where(any_outside(given), given.sigmoid(), given);
}

void require_classes(const char* metric, const char* name, const at::Tensor& labels, const at::Tensor& valid,
                     std::int64_t classes) {
  const at::Tensor fits = labels.ge(0).logical_and(labels.lt(classes)).logical_or(valid.logical_not()).all();
  if (!fits.is_cpu()) return at::_assert_async(fits, std::string(metric) + ": a class out of range");
  if (fits.item<bool>()) return;
  throw TrainingError(
      std::string(metric) + ": " + name + " has a class outside of [0, " + std::to_string(classes) + ")",
      MessageCode::log_misuse);
}

Labels classes_of(const char* metric, const at::Tensor& preds, const at::Tensor& target, std::int64_t classes,
                  std::int64_t top_k, std::int64_t ignore_index) {
  Labels found{.predicted = {}, .target = target.reshape({-1}).to(at::kLong), .valid = {}};
  found.valid = found.target.ne(ignore_index);
  if (preds.dim() == target.dim() + 1) {
    const at::Tensor scores = rows_of(metric, preds, classes);
    found.predicted = scores.argmax(1);  // argmax takes the first of equal scores, topk any of them
    if (top_k > 1) {
      const at::Tensor best = std::get<1>(at::topk(scores, top_k, 1));
      const at::Tensor hit = best.eq(found.target.unsqueeze(1)).any(1);
      found.predicted = at::where(hit, found.target, found.predicted);
    }
  } else {
    found.predicted = preds.reshape({-1}).to(at::kLong);
  }
  if (found.predicted.numel() != found.target.numel()) refuse_shapes(metric, preds, target);
  require_classes(metric, "target", found.target, found.valid, classes);
  require_classes(metric, "preds", found.predicted, found.valid, classes);
  return found;
}

Labels labels_of(const char* metric, const at::Tensor& preds, const at::Tensor& target, std::int64_t labels,
                 double threshold, std::int64_t ignore_index) {
  if (preds.sizes() != target.sizes()) refuse_shapes(metric, preds, target);
  const auto flat = [&](const at::Tensor& tensor) {
    return labels == 1 ? tensor.reshape({-1, 1}) : rows_of(metric, tensor, labels);
  };
  Labels found{.predicted = flat(preds), .target = flat(target), .valid = {}};
  found.valid = found.target.ne(ignore_index);
  require_classes(metric, "target", found.target, found.valid, 2);
  found.predicted = found.predicted.is_floating_point() ? sigmoid_if_needed(found.predicted).gt(threshold)
                                                        : found.predicted.ne(0);
  found.target = found.target.eq(1);
  return found;
}

at::Tensor collector(const at::Tensor& numbers, std::int64_t size) {
  const at::Tensor flat = numbers.reshape({-1});
  return at::zeros({size}, flat.options()).scatter_add_(0, flat, at::ones_like(flat));
}

at::Tensor safe_divide(const at::Tensor& a, const at::Tensor& b) {
  return at::where(b.ne(0), a.div(b), at::zeros({}, a.options()));
}

}  // namespace cxtrain::class_inputs
