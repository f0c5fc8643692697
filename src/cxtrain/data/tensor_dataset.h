#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "cxtrain/data/dataset.h"

namespace cxtrain {

/// Returns the rows of `source`, a CPU tensor, at `indices`: a view without a copy if the indices are
/// consecutive, else a new tensor. With `pin_memory` (`SampleContext`) always a new tensor, page-locked.
/// Takes about a microsecond for a small batch if `source` is contiguous. Several threads may call it. Throws
/// DataError if an index is not in [0, source.size(0)).
at::Tensor gather_rows(const at::Tensor& source, std::span<const std::int64_t> indices,
                       bool pin_memory = false);

/// Tensors in memory; sample i is row i of each tensor.
class TensorDataset final : public Dataset {
 public:
  /// CPU tensors with an equal size of dimension 0 (at least one tensor). Throws DataError with the sizes
  /// otherwise.
  explicit TensorDataset(std::vector<at::Tensor> tensors);

  std::int64_t size() const override { return size_; }
  /// Consecutive indices give views of the dataset's own memory: a step must not write to its batch in place.
  void collate(std::span<const std::int64_t> indices, const SampleContext& context,
               Batch& batch) const override;

  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
  std::int64_t size_ = 0;
};

}  // namespace cxtrain
