#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cxtrain {

/// One layer of a model.
struct LayerRow {
  std::string name;  ///< as registered
  std::string type;
  std::int64_t params = 0;      ///< elements of its parameters and those below it
  std::int64_t bytes = 0;       ///< that these take
  std::int64_t trainable = -1;  ///< of `params`, those that require a gradient; negative: all
};

/// Lightning's ModelSummary: a table of the layers, then the totals. Every parameter belongs to exactly one
/// row. Ends with a newline.
std::string model_summary(std::span<const LayerRow> rows);

/// Lightning's short counts: "999  ", "1.2 K", "85.8 M".
std::string human_count(std::int64_t count);

}  // namespace cxtrain
