#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "cxtrain/base/class_name.h"
#include "cxtrain/base/text.h"
#include "cxtrain/config/arguments.h"
#include "cxtrain/config/field.h"
#include "cxtrain/config/field_text.h"
#include "cxtrain/config/values.h"

/// What follows from the fields of a struct (config/field.h).
namespace cxtrain {

namespace field {

inline void set(ArgumentSpec& spec, const Range& range) { spec.range = range; }
inline void set(ArgumentSpec& spec, const OneOf& choices) {
  spec.choices = choices.words;
  spec.shown = joined(choices.words, "|");
}
inline void set(ArgumentSpec& spec, Required) { spec.required = true; }
template <class Other>
void set(ArgumentSpec& /*spec*/, const Other& /*of options only*/) {}

/// Returns what is wrong with a value; nothing: it is within the limits of the spec. `quote`: around numbers
/// in the message.
template <class Value>
std::optional<Problem> refuse_value(const ArgumentSpec& spec, const Value& value, const char* quote = "") {
  std::string why;
  if constexpr (kIsOptional<Value>) {
    return value ? refuse_value(spec, *value, quote) : std::nullopt;
  } else if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>) {
    for (const std::int64_t number : value) {
      if (auto problem = refuse_value(spec, number, quote)) return problem;
    }
  } else if constexpr (requires { value.count(); }) {
    return refuse_value(spec, value.count(), quote);
  } else if constexpr (std::is_same_v<Value, BatchLimit>) {
    why = parse_batch_limit(format_batch_limit(value)).error;
  } else if constexpr (std::is_same_v<Value, std::string>) {
    if (spec.required && value.empty()) return Problem{"", "is not given", "", MessageCode::missing_value};
    return refuse_choice(spec.choices, value);
  } else if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>) {
    why = spec.range.refuse(static_cast<double>(value));
    if (!why.empty()) why = quote + *text_of(value) + quote + " " + why;
  }
  if (why.empty()) return std::nullopt;
  return Problem{"", why, spec.range.hint, MessageCode::out_of_range};
}

/// Returns what is wrong with a text that a user typed.
template <class Value>
std::optional<Problem> refuse_typed(const ArgumentSpec& spec, const std::string& text) {
  if constexpr (Choice<Value>) {
    return refuse_choice(spec.choices, text);
  } else {
    const Parsed<Value> value = parse_argument<Value>(text);
    return value ? refuse_value(spec, *value, "'") : Problem{"", value.error, ""};
  }
}

/// The spec of a field of this name and value, which is the default.
template <class Value, class... Limits>
ArgumentSpec describe(const char* name, const Value& value, const char* help, const Limits&... limits) {
  ArgumentSpec spec{.name = name,
                    .type = type_word<Value>(),
                    .shown = shown<Value>(),
                    .default_value = text_of(value).value_or("auto"),
                    .help = help,
                    .refuse = refuse_typed<Value>};
  if constexpr (Choice<Value>)
    spec.choices.assign(ChoiceOf<Value>::words.begin(), ChoiceOf<Value>::words.end());
  if constexpr (kIsOptional<Value>) spec.shown += "|auto";
  (set(spec, limits), ...);
  return spec;
}

/// Appends what the limits of a field refuse of a value to `problems`.
template <class Value, class... Limits>
void check(const std::string& option, const Value& value, std::vector<Problem>& problems,
           const Limits&... limits) {
  ArgumentSpec spec;
  (set(spec, limits), ...);
  if (auto problem = refuse_value(spec, value)) {
    problem->option = option;
    problems.push_back(std::move(*problem));
  }
}

}  // namespace field

/// Whether a struct lists its fields.
template <class Struct>
concept HasFields = requires(Struct& args) {
  args.fields([](const char*, auto&, const auto&...) {});
};

/// Appends each field whose value its limits refuse to `problems`, for structs that a program fills itself.
/// `prefix` begins the names of the options in the messages.
template <class Struct>
void check_fields(Struct checked, std::string_view prefix, std::vector<Problem>& problems) {
  checked.fields([&](const char* name, const auto& value, const char* /*help*/, const auto&... limits) {
    field::check(std::string(prefix) + name, value, problems, limits...);
  });
}

/// Throws ConfigError with what `check_fields` refuses; messages name the struct and its field.
template <class Struct>
void require_fields(const Struct& checked) {
  std::vector<Problem> problems;
  check_fields(checked, class_name(typeid(Struct)) + "::", problems);
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

/// Returns the specs of a struct's fields; `args` has the defaults.
template <class Args>
std::vector<ArgumentSpec> argument_specs(Args args = {}) {
  std::vector<ArgumentSpec> specs;
  args.fields([&](const char* name, const auto& value, const char* help, const auto&... limits) {
    specs.push_back(field::describe(name, value, help, limits...));
  });
  return specs;
}

/// Returns a struct with the values of arguments that were checked against `argument_specs<Args>()`.
template <class Args>
Args read_args(const Arguments& arguments) {
  Args args;
  args.fields([&]<class Value>(const char* name, Value& value, const char* /*help*/, const auto&...) {
    value = *field::parse_argument<Value>(arguments.text(name));
  });
  return args;
}

/// Sets those fields that the user gave.
template <class Args>
void assign_given(const Arguments& arguments, Args& args) {
  args.fields([&]<class Value>(const char* name, Value& value, const char* /*help*/, const auto&...) {
    if (arguments.given(name)) value = *field::parse_argument<Value>(arguments.text(name));
  });
}

}  // namespace cxtrain
