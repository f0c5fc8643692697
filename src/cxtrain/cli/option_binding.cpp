#include "cxtrain/cli/option_binding.h"

#include <charconv>
#include <limits>

namespace cxtrain::option_value {
namespace {

template <class T>
Parsed<T> refused(const std::string& text, const char* expected) {
  return Parsed<T>::refused("'" + text + "' is not " + expected);
}

}  // namespace

Parsed<std::string> read(const std::string& text, const std::string*) {
  return Parsed<std::string>::of(text);
}

Parsed<bool> read(const std::string& text, const bool*) {
  const auto value = parse_boolean(text);
  return value ? Parsed<bool>::of(*value) : refused<bool>(text, "true or false");
}

Parsed<int> read(const std::string& text, const int*) {
  const auto value = parse_integer(text);
  const bool fits =
      value && *value >= std::numeric_limits<int>::min() && *value <= std::numeric_limits<int>::max();
  return fits ? Parsed<int>::of(static_cast<int>(*value)) : refused<int>(text, "a whole number");
}

Parsed<std::int64_t> read(const std::string& text, const std::int64_t*) {
  const auto value = parse_integer(text);
  return value ? Parsed<std::int64_t>::of(*value) : refused<std::int64_t>(text, "a whole number");
}

Parsed<std::uint64_t> read(const std::string& text, const std::uint64_t*) {
  const std::string_view digits = trim(text);
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = status == std::errc{} && end == digits.data() + digits.size();
  return whole ? Parsed<std::uint64_t>::of(value) : refused<std::uint64_t>(text, "a whole number from 0 on");
}

Parsed<double> read(const std::string& text, const double*) {
  const auto value = parse_real(text);
  return value ? Parsed<double>::of(*value) : refused<double>(text, "a number");
}

Parsed<BatchLimit> read(const std::string& text, const BatchLimit*) { return parse_batch_limit(text); }

Parsed<CheckInterval> read(const std::string& text, const CheckInterval*) {
  return parse_check_interval(text);
}

Parsed<Deterministic> read(const std::string& text, const Deterministic*) {
  if (trim(text) == "warn") return Parsed<Deterministic>::of(Deterministic::warn());
  const auto value = parse_boolean(text);
  return value ? Parsed<Deterministic>::of(*value) : refused<Deterministic>(text, "true, false or warn");
}

Parsed<std::chrono::seconds> read(const std::string& text, const std::chrono::seconds*) {
  return parse_duration(text);
}

Text write(const std::string& value) { return value; }
Text write(bool value) { return value ? "true" : "false"; }
Text write(int value) { return std::to_string(value); }
Text write(std::int64_t value) { return std::to_string(value); }
Text write(std::uint64_t value) { return std::to_string(value); }
Text write(double value) { return format_real(value); }
Text write(const BatchLimit& value) { return format_batch_limit(value); }
Text write(const CheckInterval& value) { return format_check_interval(value); }
Text write(const Deterministic& value) { return value.warn_only ? "warn" : value.on ? "true" : "false"; }
Text write(std::chrono::seconds value) { return format_duration(value); }

std::string placeholder(const std::string*) { return "TEXT"; }
std::string placeholder(const bool*) { return "BOOL"; }
std::string placeholder(const int*) { return "N"; }
std::string placeholder(const std::int64_t*) { return "N"; }
std::string placeholder(const std::uint64_t*) { return "N"; }
std::string placeholder(const double*) { return "X"; }
std::string placeholder(const BatchLimit*) { return "N|X"; }
std::string placeholder(const CheckInterval*) { return "N|X|DD:HH:MM:SS"; }
std::string placeholder(const Deterministic*) { return "true|warn"; }
std::string placeholder(const std::chrono::seconds*) { return "DD:HH:MM:SS"; }

}  // namespace cxtrain::option_value
