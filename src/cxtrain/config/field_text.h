#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cxtrain/base/text.h"
#include "cxtrain/config/values.h"

/// Values of fields (config/field.h) as texts, by type.
namespace cxtrain::field {

template <class Value>
Parsed<Value> refused(const std::string& text, const char* expected) {
  return Parsed<Value>::refused("'" + text + "' is not " + expected);
}

template <std::integral Value>
Parsed<Value> parse_whole(const std::string& text) {
  using Wide = std::conditional_t<std::unsigned_integral<Value>, std::uint64_t, std::int64_t>;
  const auto number = parse_number<Wide>(text);
  if (number && std::in_range<Value>(*number)) return Parsed<Value>::of(static_cast<Value>(*number));
  return refused<Value>(text, std::unsigned_integral<Value> ? "a whole number from 0 on" : "a whole number");
}

template <bool kKnown>
constexpr void require_known_type() {
  static_assert(kKnown,
                "a field has one of the types that config/field.h lists; an enumeration needs a ChoiceOf");
}

/// Reads what a user typed.
template <class Value>
Parsed<Value> parse(const std::string& text) {
  if constexpr (kIsOptional<Value>) {
    const std::string_view word = trim(text);
    constexpr bool kHasAuto = std::same_as<Value, std::optional<bool>>;
    if (kHasAuto && (word == "auto" || word == "null")) return Parsed<Value>::of(std::nullopt);
    auto value = parse<typename Value::value_type>(text);
    if (kHasAuto && !value) return Parsed<Value>::refused("'" + text + "' is none of true, false, auto");
    return value ? Parsed<Value>::of(std::move(value.value)) : Parsed<Value>::refused(value.error);
  } else if constexpr (std::same_as<Value, bool>) {
    const auto value = parse_boolean(text);
    return value ? Parsed<Value>::of(*value) : refused<Value>(text, "true or false");
  } else if constexpr (std::integral<Value>) {
    return parse_whole<Value>(text);
  } else if constexpr (std::floating_point<Value>) {
    const auto value = parse_real(text);
    return value ? Parsed<Value>::of(static_cast<Value>(*value)) : refused<Value>(text, "a number");
  } else if constexpr (std::same_as<Value, Profiler>) {
    return parse_profiler(text);
  } else if constexpr (Choice<Value>) {
    return parse_choice<Value>(text);
  } else if constexpr (std::same_as<Value, BatchLimit>) {
    return parse_batch_limit(text);
  } else if constexpr (std::same_as<Value, CheckInterval>) {
    return parse_check_interval(text);
  } else if constexpr (std::same_as<Value, Deterministic>) {
    if (trim(text) == "warn") return Parsed<Value>::of(Deterministic::warn());
    const auto value = parse_boolean(text);
    return value ? Parsed<Value>::of(*value) : refused<Value>(text, "true, false or warn");
  } else if constexpr (std::same_as<Value, std::chrono::seconds>) {
    return parse_duration(text);
  } else if constexpr (std::same_as<Value, std::chrono::duration<double>>) {
    return parse_seconds(text);
  } else if constexpr (std::same_as<Value, std::vector<std::int64_t>>) {
    return parse_integers(text);
  } else {
    require_known_type<std::constructible_from<Value, std::string>>();
    return Parsed<Value>::of(Value(text));
  }
}

/// Reads an argument of a component: what `parse` reads, and "auto" for an absent optional.
template <class Value>
Parsed<Value> parse_argument(const std::string& text) {
  if constexpr (kIsOptional<Value>) {
    if (trim(text) == "auto") return Parsed<Value>::of(std::nullopt);
  }
  return parse<Value>(text);
}

/// Returns a text that `parse` reads as an equal value; absent for null.
template <class Value>
std::optional<std::string> text_of(const Value& value) {
  if constexpr (kIsOptional<Value>) {
    return value ? text_of(*value) : std::nullopt;
  } else if constexpr (std::same_as<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::integral<Value>) {
    return std::to_string(value);
  } else if constexpr (std::floating_point<Value>) {
    return format_real(value);
  } else if constexpr (Choice<Value>) {
    return std::string(word_of(value));
  } else if constexpr (std::same_as<Value, BatchLimit>) {
    return format_batch_limit(value);
  } else if constexpr (std::same_as<Value, CheckInterval>) {
    return format_check_interval(value);
  } else if constexpr (std::same_as<Value, Devices>) {
    return value.text();
  } else if constexpr (std::same_as<Value, Deterministic>) {
    return value.warn_only ? "warn" : value.on ? "true" : "false";
  } else if constexpr (std::same_as<Value, std::chrono::seconds>) {
    return format_duration(value);
  } else if constexpr (std::same_as<Value, std::chrono::duration<double>>) {
    return value.count() == 0 ? "" : format_real(value.count());
  } else if constexpr (std::same_as<Value, std::vector<std::int64_t>>) {
    return format_integers(value);
  } else {
    constexpr bool kKnown = std::constructible_from<std::string, const Value&>;
    require_known_type<kKnown>();
    if constexpr (kKnown) return std::string(value);
  }
}

/// Returns what help shows in place of a value: "N", "X", "TEXT" ...
template <class Value>
std::string shown() {
  if constexpr (kIsOptional<Value>) {
    return shown<typename Value::value_type>();
  } else if constexpr (std::same_as<Value, bool>) {
    return "BOOL";
  } else if constexpr (std::integral<Value>) {
    return "N";
  } else if constexpr (std::floating_point<Value>) {
    return "X";
  } else if constexpr (Choice<Value>) {
    return joined(ChoiceOf<Value>::words, "|");
  } else if constexpr (std::same_as<Value, BatchLimit>) {
    return "N|X";
  } else if constexpr (std::same_as<Value, CheckInterval>) {
    return "N|X|DD:HH:MM:SS";
  } else if constexpr (std::same_as<Value, Deterministic>) {
    return "true|warn";
  } else if constexpr (std::same_as<Value, std::chrono::seconds>) {
    return "DD:HH:MM:SS";
  } else if constexpr (std::same_as<Value, std::chrono::duration<double>>) {
    return "TIME";
  } else if constexpr (std::same_as<Value, std::vector<std::int64_t>>) {
    return "N,N";
  } else {
    return "TEXT";
  }
}

/// Returns the word for the type in `info --json`.
template <class Value>
constexpr const char* type_word() {
  if constexpr (std::same_as<Value, bool>) return "boolean";
  if constexpr (std::same_as<Value, std::optional<bool>>) return "optional_boolean";
  if constexpr (kIsOptional<Value>) {
    if constexpr (std::integral<typename Value::value_type>) return "optional_integer";
    if constexpr (std::floating_point<typename Value::value_type>) return "optional_real";
  }
  if constexpr (std::integral<Value>) return "integer";
  if constexpr (std::floating_point<Value>) return "real";
  if constexpr (std::same_as<Value, std::chrono::duration<double>>) return "duration";
  if constexpr (std::same_as<Value, std::vector<std::int64_t>>) return "integers";
  return "text";
}

}  // namespace cxtrain::field
