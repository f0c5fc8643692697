#pragma once

#include <limits>
#include <string>
#include <vector>

/// A struct of arguments lists its fields once, by name, with a line of help and what limits the values:
///
///     struct Args {
///       std::int64_t hidden = 32;
///       std::string activation = "relu";
///       void fields(auto&& field) {
///         field("hidden", hidden, "units of the hidden layer", Range::at_least(1));
///         field("activation", activation, "function after the hidden layer", one_of("relu", "tanh"));
///       }
///     };
///
/// Command line, YAML, `--help`, range checks, defaults and `config.yaml` follow from the list
/// (config/fields.h). A field is a bool, a number, a text, an enumeration with a `ChoiceOf`
/// (base/field_types.h), a list of whole numbers (`std::vector<std::int64_t>`), a
/// `std::chrono::duration<double>` (DD:HH:MM:SS, or seconds), or a `std::optional` of any of these (absent:
/// "auto").
namespace cxtrain {

/// The numbers that a field accepts. The ends are included unless they are open. NaN and infinities are not
/// in the range, unless it is `any()`.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open_least = false;  ///< `least` itself is not in the range
  bool open_most = false;
  bool finite = true;     ///< false: infinities and NaN are in the range
  const char* hint = "";  ///< for the error about another number: what to type instead

  static constexpr Range any() { return {.finite = false}; }
  static constexpr Range at_least(double least, const char* hint = "") {
    return {.least = least, .hint = hint};
  }
  static constexpr Range above(double least) { return {.least = least, .open_least = true}; }
  static constexpr Range between(double least, double most) { return {.least = least, .most = most}; }
  /// From `least` on, and less than `most`.
  static constexpr Range below(double least, double most) {
    return {.least = least, .most = most, .open_most = true};
  }

  /// Returns why the number is not in the range, such as "is not above 0"; empty if it is in the range.
  std::string refuse(double number) const;
};

/// The texts that a field accepts.
struct OneOf {
  std::vector<std::string> words;
};
template <class... Words>
OneOf one_of(const Words&... words) {
  return {{std::string(words)...}};
}

/// The arguments of a component that has none.
struct NoArgs {
  void fields(auto&&) {}
};

/// The user has to give a value.
struct Required {};
inline constexpr Required kRequired{};

/// What else a field of Options (config/options.h) may have.
namespace option {

/// Text in help for the value: "NAME". Without it, the type decides ("N", "BOOL").
struct Shown {
  const char* value;
};
/// Sentences for `help OPTION` that do not fit into the line of help.
struct Details {
  const char* text;
};
/// The value of the option without a value, and of `true`; `false` resets the option.
struct TrueMeans {
  const char* value;
};
/// The only subcommands that take the option, separated by blanks. Such an option is not in config.yaml.
struct OnlyFor {
  const char* subcommands;
};

}  // namespace option

}  // namespace cxtrain
