#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

/// What describes fields of structs and their types, for `fields(auto&& field)` (config/field.h for options
/// and arguments, base/json_fields.h for JSON).
namespace cxtrain {

/// The words that a field accepts, if it accepts one of a few. Each such enum has a specialisation with the
/// words in the order of the enumerators, which count from 0.
template <class Enum>
struct ChoiceOf;
template <class Enum>
concept Choice = requires {
  ChoiceOf<Enum>::words;
};

template <Choice Enum>
std::string_view word_of(Enum value) {
  return ChoiceOf<Enum>::words[static_cast<std::size_t>(value)];
}

template <class Value>
inline constexpr bool kIsOptional = false;
template <class Value>
inline constexpr bool kIsOptional<std::optional<Value>> = true;

/// What a field has in JSON besides its name.
namespace in_json {

struct Needed {};
/// The field must be there.
inline constexpr Needed kNeeded{};

struct NullIfEmpty {};
/// Written as null if the value is absent or an empty text. Without it an absent value is left out.
inline constexpr NullIfEmpty kNullIfEmpty{};

struct UnlessDefault {};
/// Left out if the value is the default of its type.
inline constexpr UnlessDefault kUnlessDefault{};

/// The least whole number.
struct AtLeast {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
};

}  // namespace in_json
}  // namespace cxtrain
