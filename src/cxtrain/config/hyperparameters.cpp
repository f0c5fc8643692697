#include "cxtrain/config/hyperparameters.h"

#include <nlohmann/json.hpp>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

std::string in_yaml(const std::string& text) {
  const auto value = typed_value(text);
  if (std::holds_alternative<std::string>(value)) return text_of_json(nlohmann::json(text));
  std::string number = text;  // or true, false
  // Without a point, YAML 1.1 reads 1e-05 as a text.
  if (const std::size_t e = text.find('e');
      std::holds_alternative<double>(value) && e != std::string::npos && text.find('.') == std::string::npos)
    number.insert(e, ".0");
  return number;
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
