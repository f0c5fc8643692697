#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/checkpoint/weights.h"

namespace cxtrain {

/// How a tensor differs from the one of the same name. Bits are compared where the dtypes are the same, so
/// that two NaNs of the same bits are equal, and 0 and -0 are not; else values.
struct TensorDifference {
  std::string name;
  std::string first, second;     ///< "float32 [3, 4]"; different where dtypes or shapes are
  std::int64_t elements = 0;     ///< that differ; 0 where the shapes do
  double largest = 0;            ///< absolute difference of two elements; NaN where one of them is NaN
  std::vector<std::int64_t> at;  ///< indices of the first element that differs; empty where none does
  double first_value = 0, second_value = 0;  ///< of that element; of complex ones the real part

  void fields(auto&& field) { CXTRAIN_EACH(field, name, first, second, elements, largest, at); }
};

struct WeightsDifference {
  std::vector<std::string> only_first, only_second;  ///< names, sorted
  std::vector<TensorDifference> tensors;             ///< by name
  bool equal() const { return only_first.empty() && only_second.empty() && tensors.empty(); }
};

/// Reads and compares all tensors, one pair at a time. Throws CheckpointError where one cannot be read.
WeightsDifference compare_weights(const StoredWeights& first, const StoredWeights& second);

/// "float32 [3, 4]".
std::string describe(const StoredTensor& tensor);

}  // namespace cxtrain
