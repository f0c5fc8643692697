#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace cxtrain {

/// The UCI handwritten digits, 8 x 8 pixels, as scikit-learn ships them.
struct Digits {
  at::Tensor images;  ///< float32 [N, 64] in [0, 1]
  at::Tensor labels;  ///< int64 [N], 0 to 9
};

/// Reads `digits.csv`, gzipped or not: a line is 64 integers from 0 to 16 and the label. Throws DataError
/// with the file, the line, and the text found there.
Digits read_digits(const std::string& path);

}  // namespace cxtrain
