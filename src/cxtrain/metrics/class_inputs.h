#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// Inputs of classifiers in the shapes that counts are made from. Nothing waits for a device.
namespace cxtrain::class_inputs {

/// Scores [M, C] from [N, C, ...]. Throws TrainingError for another number of columns.
at::Tensor rows_of(const char* metric, const at::Tensor& scores, std::int64_t classes);
/// The scores themselves if all lie in [0, 1], else their softmax over dimension 1, or their sigmoid. 16-bit
/// floats become float32.
at::Tensor softmax_if_needed(const at::Tensor& scores);
at::Tensor sigmoid_if_needed(const at::Tensor& scores);
/// Throws TrainingError on the CPU, and fails on the device elsewhere, if a valid label is not in
/// [0, classes).
void require_classes(const char* metric, const char* name, const at::Tensor& labels, const at::Tensor& valid,
                     std::int64_t classes);

/// Predictions and targets of equal shape. `valid`, bool: the elements that count.
struct Labels {
  at::Tensor predicted, target, valid;
};
/// Classes [M], int64.
Labels classes_of(const char* metric, const at::Tensor& preds, const at::Tensor& target, std::int64_t classes,
                  std::int64_t top_k, std::int64_t ignore_index);
/// Labels [M, L], bool. Binary tasks have one label.
Labels labels_of(const char* metric, const at::Tensor& preds, const at::Tensor& target, std::int64_t labels,
                 double threshold, std::int64_t ignore_index);

/// How often each number below `size` occurs, int64 [size].
at::Tensor collector(const at::Tensor& numbers, std::int64_t size);

/// a / b, and 0 where b is 0.
at::Tensor safe_divide(const at::Tensor& a, const at::Tensor& b);

}  // namespace cxtrain::class_inputs
