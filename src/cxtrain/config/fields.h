#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "cxtrain/config/arguments.h"
#include "cxtrain/config/field.h"
#include "cxtrain/config/values.h"

/// What follows from the fields of a struct (config/field.h).
namespace cxtrain {

namespace field {

inline void set(ArgumentSpec& spec, const Range& range) { spec.range = range; }
inline void set(ArgumentSpec& spec, const OneOf& choices) { spec.choices = choices.words; }
inline void set(ArgumentSpec& spec, Required) { spec.required = true; }

/// The type of an argument, and its default as the user would type it.
template <class Value>
ArgumentSpec describe(const Value& value) {
  using Type = ArgumentSpec::Type;
  ArgumentSpec spec;
  if constexpr (std::is_same_v<Value, bool>) {
    spec.type = Type::boolean;
    spec.default_value = value ? "true" : "false";
  } else if constexpr (std::is_integral_v<Value>) {
    spec.type = Type::integer;
    spec.default_value = std::to_string(value);
  } else if constexpr (std::is_floating_point_v<Value>) {
    spec.type = Type::real;
    spec.default_value = format_real(value);
  } else if constexpr (std::is_same_v<Value, std::optional<bool>>) {
    spec.type = Type::optional_boolean;
    spec.default_value = !value ? "auto" : *value ? "true" : "false";
  } else if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>) {
    spec.type = Type::integers;
    for (const std::int64_t each : value)
      spec.default_value += (spec.default_value.empty() ? "" : ",") + std::to_string(each);
  } else if constexpr (std::is_same_v<Value, std::chrono::duration<double>>) {
    spec.type = Type::duration;
    if (value.count() != 0) spec.default_value = format_real(value.count());
  } else if constexpr (Choice<Value>) {
    spec.default_value = word_of(value);
    spec.choices.assign(ChoiceOf<Value>::words.begin(), ChoiceOf<Value>::words.end());
  } else {
    spec.default_value = std::string(value);
  }
  return spec;
}

template <class Value>
void read(const Arguments& from, std::string_view name, Value& to) {
  if constexpr (std::is_same_v<Value, bool>) {
    to = from.boolean(name);
  } else if constexpr (std::is_integral_v<Value>) {
    to = static_cast<Value>(from.integer(name));
  } else if constexpr (std::is_floating_point_v<Value>) {
    to = from.real(name);
  } else if constexpr (std::is_same_v<Value, std::optional<bool>>) {
    to = from.optional_boolean(name);
  } else if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>) {
    to = from.integers(name);
  } else if constexpr (std::is_same_v<Value, std::chrono::duration<double>>) {
    to = from.duration(name);
  } else if constexpr (Choice<Value>) {
    to = *parse_choice<Value>(from.text(name));
  } else {
    to = from.text(name);
  }
}

}  // namespace field

/// Returns the specs of a struct's fields; `args` has the defaults.
template <class Args>
std::vector<ArgumentSpec> argument_specs(Args args = {}) {
  std::vector<ArgumentSpec> specs;
  args.fields([&](const char* name, const auto& value, const char* help, const auto&... limits) {
    ArgumentSpec spec = field::describe(value);
    spec.name = name;
    spec.help = help;
    (field::set(spec, limits), ...);
    specs.push_back(std::move(spec));
  });
  return specs;
}

/// Returns a struct with the values of arguments that were checked against `argument_specs<Args>()`.
template <class Args>
Args read_args(const Arguments& arguments) {
  Args args;
  args.fields([&](const char* name, auto& value, const char* /*help*/, const auto&...) {
    field::read(arguments, name, value);
  });
  return args;
}

/// Sets those fields that the user gave.
template <class Args>
void assign_given(const Arguments& arguments, Args& args) {
  args.fields([&](const char* name, auto& value, const char* /*help*/, const auto&...) {
    if (arguments.given(name)) field::read(arguments, name, value);
  });
}

}  // namespace cxtrain
