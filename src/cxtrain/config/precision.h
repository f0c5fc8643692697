#pragma once

#include <string>
#include <string_view>

#include "cxtrain/config/values.h"

namespace cxtrain {

/// A precision in Lightning's spelling.
struct Precision {
  std::string name;        ///< canonical: 16-mixed, bf16-mixed, 16-true, bf16-true, 32-true, 64-true
  bool shorthand = false;  ///< asked for as plain `16`, `bf16`, `32` or `64`
};

/// Reads any of Lightning's spellings: "16", "16-mixed", "bf16-true" ...
Parsed<Precision> parse_precision(std::string_view text);

}  // namespace cxtrain
