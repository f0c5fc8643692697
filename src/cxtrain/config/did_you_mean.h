#pragma once

#include <span>
#include <string>
#include <string_view>

/// What was meant by a word that means nothing here.
namespace cxtrain {

/// The name that was probably meant by `typed`: the one with the fewest insertions, deletions, replacements
/// and swaps of neighbours (Damerau 1964, optimal string alignment). Empty when none is near: more than a
/// third of the letters would have to change.
std::string nearest_name(std::string_view typed, std::span<const std::string> names);

/// "did you mean 'x'?" for the nearest name, empty when none is near.
std::string did_you_mean(std::string_view typed, std::span<const std::string> names,
                         std::string_view prefix = "");

/// The same where few names are known: "known are a, b" when none is near; empty for no names.
std::string did_you_mean_or_known(std::string_view typed, std::span<const std::string> names,
                                  std::string_view prefix = "");

/// An argument of Lightning's Trainer that does not exist here.
struct UnsupportedArgument {
  std::string_view name;
  std::string_view harmless;  ///< the value that asks for nothing, and so is accepted; empty: only null
  std::string_view instead;   ///< what to type, or where to do it
};

/// All of them, of Lightning 0.x to 2.x.
std::span<const UnsupportedArgument> unsupported_arguments();

/// The one that `key` names, with or without `trainer.`, or that it is a part of
/// (`trainer.plugins.class_path`); null for none.
const UnsupportedArgument* find_unsupported_argument(std::string_view key);

}  // namespace cxtrain
