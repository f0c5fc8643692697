#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/error.h"

namespace cxtrain {

/// One argument that a component (model, data module, optimizer ...) understands.
struct ArgumentSpec {
  enum class Type { integer, real, text, boolean };
  std::string name;
  Type type = Type::text;
  std::string default_value;  ///< as the user would type it
  std::string help;
  std::vector<std::string> choices;  ///< texts: the only values allowed; empty: any
};

/// The arguments of one component: what the user gave, checked against the component's specs, defaults filled
/// in.
class Arguments {
 public:
  /// Checks every value, and appends to `problems` each that is unknown (with the nearest name) or malformed;
  /// `prefix` ("model.") names the options in the messages.
  Arguments(const std::vector<ArgumentSpec>& specs, const std::map<std::string, std::string>& given,
            std::string_view prefix, std::vector<Problem>& problems);
  Arguments() = default;

  /// Values of an argument in the specs; std::logic_error for a name or type that the specs do not have.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  bool boolean(std::string_view name) const;

  /// Whether the user gave it (as opposed to its default).
  bool given(std::string_view name) const;

  /// All of them, as text, defaults included, for `config.yaml`.
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  const std::string& value(std::string_view name, ArgumentSpec::Type type) const;

  std::map<std::string, std::string> values_;
  std::map<std::string, ArgumentSpec::Type, std::less<>> types_;
  std::set<std::string, std::less<>> given_;
};

}  // namespace cxtrain
