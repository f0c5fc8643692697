#include "cxtrain/state/stateful.h"

#include <map>

namespace cxtrain {

std::vector<std::string> distinct_keys(std::vector<std::string> keys) {
  std::map<std::string, int> seen;
  for (std::string& key : keys) {
    const int count = ++seen[key];
    if (count > 1) key += "#" + std::to_string(count);
  }
  return keys;
}

}  // namespace cxtrain
