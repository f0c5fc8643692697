#include "cxtrain/report/config_lines.h"

#include <algorithm>

namespace cxtrain {
namespace {

struct ConfigLevel {
  std::size_t indent = 0;
  std::string key;
};

}  // namespace

std::vector<ConfigLine> config_lines(std::string_view yaml) {
  constexpr std::size_t kMaxLines = 10'000, kMaxLevels = 20, kMaxKey = 1000;
  std::vector<ConfigLine> lines;
  std::vector<ConfigLevel> above;
  while (!yaml.empty() && lines.size() < kMaxLines) {
    const std::size_t end = std::min(yaml.find('\n'), yaml.size());
    ConfigLine line{.text = std::string(yaml.substr(0, end)), .key = {}, .value = {}};
    yaml.remove_prefix(std::min(end + 1, yaml.size()));
    const std::size_t indent = std::min(line.text.find_first_not_of(' '), line.text.size());
    while (!above.empty() && above.back().indent >= indent) above.pop_back();
    const std::size_t colon = line.text.find(':', indent);
    if (colon != std::string::npos && line.text[indent] != '-' && above.size() < kMaxLevels) {
      std::string key =
          (above.empty() ? "" : above.back().key + ".") + line.text.substr(indent, colon - indent);
      if (key.size() > kMaxKey) key.resize(kMaxKey);
      const std::size_t value = line.text.find_first_not_of(' ', colon + 1);
      if (value != std::string::npos) {
        line.key = key;
        line.value = line.text.substr(value);
      }
      above.push_back({indent, std::move(key)});
    } else if (indent < line.text.size() && !above.empty()) {
      line.key = above.back().key + "[" + line.text.substr(indent, kMaxKey) + "]";
      line.value = line.text.substr(indent);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::map<std::string, std::vector<std::string>> config_differences(
    const std::vector<std::vector<ConfigLine>>& configs) {
  std::map<std::string, std::vector<std::string>> values;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    for (const ConfigLine& line : configs[i]) {
      if (line.key.empty()) continue;
      std::vector<std::string>& of_all = values[line.key];
      of_all.resize(configs.size());
      of_all[i] = line.value;
    }
  }
  std::erase_if(values, [](const auto& entry) {
    const std::vector<std::string>& of_all = entry.second;
    return std::all_of(of_all.begin(), of_all.end(),
                       [&](const auto& value) { return value == of_all.front(); });
  });
  return values;
}

}  // namespace cxtrain
