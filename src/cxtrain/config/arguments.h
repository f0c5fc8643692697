#pragma once

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

/// One argument that a component (model, data module, optimizer ...) accepts; from the fields of a struct
/// (`argument_specs` in config/fields.h).
struct ArgumentSpec {
  std::string name;
  std::string type;           ///< "integer", "real", "text" ..., for programs
  std::string shown;          ///< what help shows in place of a value: "N", "X", "BOOL", "mlp|cnn"
  std::string default_value;  ///< as the user would type it
  std::string help;
  std::vector<std::string> choices = {};  ///< texts: the only values allowed; empty: any
  Range range = {};                       ///< allowed values of every number
  bool required = false;                  ///< no default: the user has to give a value
  /// Returns what is wrong with a text that a user typed; nothing: it is a value of the argument.
  std::function<std::optional<Problem>(const ArgumentSpec&, const std::string& text)> refuse = {};
};

/// Returns what is wrong with a text that is not one of `choices`; nothing if there are no choices.
std::optional<Problem> refuse_choice(const std::vector<std::string>& choices, const std::string& text);

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

  /// Returns the value of an argument as the user would type it. Throws std::logic_error for a name that the
  /// specs do not have.
  const std::string& text(std::string_view name) const;

  /// Returns whether the user gave a value, as opposed to the default.
  bool given(std::string_view name) const;

  /// All arguments as text, defaults included, for `config.yaml`.
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
  std::set<std::string, std::less<>> given_;
};

/// A component chosen by name, with checked arguments.
struct ChosenComponent {
  std::string name;
  Arguments arguments;
  std::string asked_as = {};  ///< `NamedOptions::name`
};

}  // namespace cxtrain
