#include "cxtrain/checkpoint/name_map.h"

#include "cxtrain/checkpoint/checkpoint_error.h"

namespace cxtrain {

NameMap NameMap::parse(std::string_view text) {
  NameMap map;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view rule = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const std::size_t equals = rule.find('=');
    if (equals == std::string_view::npos || rule.find('=', equals + 1) != std::string_view::npos) {
      throw CheckpointError("'" + shortened(std::string(rule), 200) +
                                "' is not of the form FROM=TO; examples: model.= or encoder.=net.encoder.",
                            MessageCode::invalid_value);
    }
    const std::string_view from = rule.substr(0, equals);
    for (const auto& [earlier, to] : map.rules_) {
      if (from.starts_with(earlier)) {
        throw CheckpointError("the rule '" + std::string(rule) + "' has no effect, because '" + earlier +
                                  "=" + to + "' before it matches every name that it matches; put it first",
                              MessageCode::invalid_value);
      }
    }
    map.rules_.emplace_back(from, rule.substr(equals + 1));
  }
  return map;
}

std::string NameMap::operator()(std::string_view name) const {
  for (const auto& [from, to] : rules_) {
    if (name.starts_with(from)) return to + std::string(name.substr(from.size()));
  }
  return std::string(name);
}

}  // namespace cxtrain
