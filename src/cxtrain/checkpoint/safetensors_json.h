#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/checkpoint/safetensors.h"

namespace cxtrain {

/// What a header says of the tensors, in the header's order. `begin` and `end` are not checked yet.
struct SafetensorsDirectory {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// Reads the JSON of a header without a tree of values in between, so that odd input takes no more memory
/// than its text. Throws CheckpointError with the reason alone: no JSON, keys that occur twice, are missing
/// or unknown, dtypes that are not known here, numbers that are none or too large.
SafetensorsDirectory parse_safetensors_header(std::string_view json);

}  // namespace cxtrain
