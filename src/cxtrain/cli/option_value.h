#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/config/options.h"
#include "cxtrain/config/parsed.h"

/// Option values as text: reading what the user typed, and writing what reads back as the same value. One
/// overload for each type that a member of Options has.
namespace cxtrain::option_value {

Parsed<std::string> read(const std::string& text, const std::string*);
Parsed<bool> read(const std::string& text, const bool*);
Parsed<int> read(const std::string& text, const int*);
Parsed<std::int64_t> read(const std::string& text, const std::int64_t*);
Parsed<std::uint64_t> read(const std::string& text, const std::uint64_t*);
Parsed<double> read(const std::string& text, const double*);
Parsed<BatchLimit> read(const std::string& text, const BatchLimit*);
Parsed<Deterministic> read(const std::string& text, const Deterministic*);

template <class T>
Parsed<std::optional<T>> read(const std::string& text, const std::optional<T>*) {
  Parsed<T> value = read(text, static_cast<const T*>(nullptr));
  if (!value) return Parsed<std::optional<T>>::refused(value.error);
  return Parsed<std::optional<T>>::of(std::move(value.value));
}

/// Nothing stands for null.
using Text = std::optional<std::string>;
Text write(const std::string& value);
Text write(bool value);
Text write(int value);
Text write(std::int64_t value);
Text write(std::uint64_t value);
Text write(double value);
Text write(const BatchLimit& value);
Text write(const Deterministic& value);

template <class T>
Text write(const std::optional<T>& value) {
  return value ? write(*value) : std::nullopt;
}

/// What help shows in place of a value: "N", "X", "TEXT" ...
const char* placeholder(const std::string*);
const char* placeholder(const bool*);
const char* placeholder(const int*);
const char* placeholder(const std::int64_t*);
const char* placeholder(const std::uint64_t*);
const char* placeholder(const double*);
const char* placeholder(const BatchLimit*);
const char* placeholder(const Deterministic*);

template <class T>
const char* placeholder(const std::optional<T>*) {
  return placeholder(static_cast<const T*>(nullptr));
}

}  // namespace cxtrain::option_value
