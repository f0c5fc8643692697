#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cxtrain {

/// A line of a config.yaml, as far as it says what it sets.
struct ConfigLine {
  std::string text;
  std::string key;    ///< "trainer.max_epochs"; empty: the line sets nothing
  std::string value;  ///< "30"
};

/// The lines of what `to_yaml` wrote: keys that are indented below others. Of other YAML, lines.
std::vector<ConfigLine> config_lines(std::string_view yaml);

/// For each key that some of these configurations set to different values, or not all set: its values, in the
/// order of the configurations; empty where one does not set it.
std::map<std::string, std::vector<std::string>> config_differences(
    const std::vector<std::vector<ConfigLine>>& configs);

}  // namespace cxtrain
