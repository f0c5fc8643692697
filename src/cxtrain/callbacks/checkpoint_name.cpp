#include "cxtrain/callbacks/checkpoint_name.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <regex>

#include "cxtrain/base/error.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// {name} or {name:format}; a format is Python's, as far as numbers in names need it.
const std::regex& placeholder() {
  static const std::regex pattern(R"(\{([^{}:]+)(?::(0?)([0-9]{0,2})(?:\.([0-9]{1,2}))?([dfeg]?))?\})");
  return pattern;
}

std::string formatted_value(double value, const std::smatch& match) {
  const std::string width = match[3].str(), precision = match[4].str(), type = match[5].str();
  if (width.empty() && precision.empty() && type.empty()) return format_real(value);
  std::string format = "%" + match[2].str() + width;
  std::array<char, 512> text{};  // the longest %.99f of a double has 409 characters
  int length = 0;
  const bool whole = type == "d" || (type.empty() && precision.empty() && value == std::floor(value));
  if (whole && std::isfinite(value)) {
    length = std::snprintf(text.data(), text.size(), (format + "lld").c_str(), static_cast<long long>(value));
  } else {
    if (!precision.empty()) format += "." + precision;
    length = std::snprintf(text.data(), text.size(),
                           (format + (type.empty() || type == "d" ? "g" : type)).c_str(), value);
  }
  return {text.data(), std::min(static_cast<std::size_t>(length), text.size() - 1)};
}

}  // namespace

std::string checkpoint_name(const std::string& filename, const std::map<std::string, double>& values,
                            bool auto_insert_metric_name) {
  std::string name, rest = filename;
  for (std::smatch match; std::regex_search(rest, match, placeholder()); rest = match.suffix()) {
    const auto value = values.find(match[1].str());
    name += match.prefix();
    if (auto_insert_metric_name) name += match[1].str() + "=";
    name += formatted_value(value == values.end() ? 0 : value->second, match);
  }
  name += rest;
  std::ranges::replace(name, '/', '_');  // a metric may be called "loss/train"
  return name;
}

void check_name_template(const std::string& filename) {
  constexpr std::size_t kLongestName = 255;  // NAME_MAX
  if (filename.size() > kLongestName) {
    throw ConfigError("checkpoint.filename", "'" + shortened(filename, 80) + "' has more than 255 bytes",
                      "{epoch}-{step}-{val_loss:.3f}");
  }
  const std::string without = std::regex_replace(filename, placeholder(), "0");
  if (without.find_first_of("{}") != std::string::npos) {
    throw ConfigError("checkpoint.filename", "'" + filename + "' has a { } that is not {name} or {name:.2f}",
                      "{epoch}-{step}-{val_loss:.3f}");
  }
  if (without.find('/') != std::string::npos || without == "." || without == "..") {
    throw ConfigError("checkpoint.filename", "'" + filename + "' is not the name of a file",
                      "--checkpoint.dirpath names the folder");
  }
}

}  // namespace cxtrain
