#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/field.h"

namespace cxtrain {

/// One argument that a component (model, data module, optimizer ...) accepts.
struct ArgumentSpec {
  enum class Type {
    integer,
    real,
    text,
    boolean,
    optional_boolean,  ///< true, false, or auto: the component decides; its default is "auto"
    integers,          ///< "30,80"
    duration,          ///< "00:00:30:00" (days first), or seconds; its default may be empty: 0
  };
  std::string name;
  Type type = Type::text;
  std::string default_value;  ///< as the user would type it
  std::string help;
  std::vector<std::string> choices = {};  ///< texts: the only values allowed; empty: any
  Range range = {};                       ///< allowed values of every integer or real
  bool required = false;                  ///< no default: the user has to give a value
};

/// The arguments of one component: the user's values, checked against the component's specs, and defaults for
/// the rest.
class Arguments {
 public:
  /// Checks every value. Appends to `problems` each unknown name (with the nearest name), each malformed
  /// value, and each missing value that is required. `prefix` ("model.") begins the options' names in the
  /// messages. `others`: further names, not in the specs, that the user may have meant.
  Arguments(const std::vector<ArgumentSpec>& specs, const std::map<std::string, std::string>& given,
            std::string_view prefix, std::vector<Problem>& problems,
            std::span<const std::string> others = {});
  Arguments() = default;

  /// Values of an argument in the specs. They throw std::logic_error for a name or type that the specs do not
  /// have.
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  bool boolean(std::string_view name) const;
  /// Absent for auto.
  std::optional<bool> optional_boolean(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  std::chrono::duration<double> duration(std::string_view name) const;

  /// Returns whether the user gave a value, as opposed to the default.
  bool given(std::string_view name) const;

  /// All arguments as text, defaults included, for `config.yaml`.
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  const std::string& value(std::string_view name, ArgumentSpec::Type type) const;

  std::map<std::string, std::string> values_;
  std::map<std::string, ArgumentSpec::Type, std::less<>> types_;
  std::set<std::string, std::less<>> given_;
};

/// A component chosen by name, with checked arguments.
struct ChosenComponent {
  std::string name;
  Arguments arguments;
};

}  // namespace cxtrain
