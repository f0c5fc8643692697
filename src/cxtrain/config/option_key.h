#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace cxtrain {

/// Returns the key of an option by its word on a command line: "max_epochs" for "--max-epochs=3".
inline std::string option_key(std::string_view word) {
  if (word.starts_with("--")) word.remove_prefix(2);
  std::string key(word.substr(0, word.find('=')));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

}  // namespace cxtrain
