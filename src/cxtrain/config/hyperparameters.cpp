#include "cxtrain/config/hyperparameters.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// A number that YAML 1.1 and 1.2 read alike: in YAML 1.1, 1e-05 and 1.0e5 are texts, and 010 is 8.
std::string number_in_yaml(const std::string& text, double value) {
  if (const auto whole = parse_integer(text)) return std::to_string(*whole);
  std::string number = format_real(value);  // an exponent has its sign
  if (number.find('.') == std::string::npos) number.insert(std::min(number.find('e'), number.size()), ".0");
  return number;
}

std::string in_yaml(const std::string& text) {
  const auto value = typed_value(text);
  if (std::holds_alternative<std::string>(value)) return text_of_json(nlohmann::json(text));
  if (const double* number = std::get_if<double>(&value)) return number_in_yaml(text, *number);
  return text;  // true, false
}

}  // namespace

std::variant<bool, double, std::string> typed_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = parse_real(text); number && std::isfinite(*number)) return *number;
  return text;
}

std::string to_yaml(const Hyperparameters& values, std::string_view indent) {
  std::string yaml;
  for (const auto& [name, value] : values) yaml += std::string(indent) + name + ": " + in_yaml(value) + "\n";
  return yaml;
}

}  // namespace cxtrain
