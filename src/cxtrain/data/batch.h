#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace cxtrain {

/// One micro-batch as a dataset collates it: tensors whose dimension 0 counts the samples. By convention
/// `batch[0]` is the input and `batch[1]`, where there is one, the target.
struct Batch {
  std::vector<at::Tensor> tensors;
  std::int64_t size = 0;  ///< samples in it; 0 on a rank that has none left in an uneven last step

  const at::Tensor& operator[](std::size_t i) const { return tensors[i]; }
};

}  // namespace cxtrain
