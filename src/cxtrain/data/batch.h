#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace cxtrain {

/// One micro-batch as a dataset collates it: tensors with the samples in dimension 0. By convention
/// `batch[0]` is the input and `batch[1]`, if there is one, the target.
struct Batch {
  std::vector<at::Tensor> tensors;
  /// Number of samples, set by the loader; 0 on a rank without a sample in an uneven last step.
  std::int64_t size = 0;

  /// The samples' indices in the dataset, in the batch's order.
  std::vector<std::int64_t> indices = {};

  /// Throws std::out_of_range if the batch has fewer tensors.
  const at::Tensor& operator[](std::size_t i) const {
    if (i < tensors.size()) return tensors[i];
    throw std::out_of_range("batch[" + std::to_string(i) + "] was asked for, but the batch has " +
                            std::to_string(tensors.size()) + (tensors.size() == 1 ? " tensor" : " tensors"));
  }
};

/// The shard of every global batch that one reader takes: number `index` of `count`.
struct DataShard {
  int index = 0;
  int count = 1;
};

}  // namespace cxtrain
