#pragma once

#include <optional>
#include <string>
#include <utility>

namespace cxtrain {

/// What a grammar made of a text: a value, or why there is none (a sentence that quotes the text).
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string error;

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }

  static Parsed of(T value) { return {std::move(value), {}}; }
  static Parsed refused(std::string why) { return {std::nullopt, std::move(why)}; }
};

}  // namespace cxtrain
