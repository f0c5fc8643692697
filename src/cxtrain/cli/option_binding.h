#pragma once

#include <type_traits>
#include <utility>

#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/option_value.h"

/// The accessor of a member of Options, const and not.
#define CXTRAIN_MEMBER(path) \
  [](auto& options) -> auto& { return options.path; }

namespace cxtrain {

/// What the table says about an option beside its member.
struct OptionText {
  const char* key;
  const char* help;
  const char* placeholder = nullptr;  ///< nullptr: by the member's type
};

/// An entry for the member that `get(options)` refers to.
template <class Get>
OptionEntry bind_option(const char* group, const OptionText& text, Get get) {
  using Value = std::remove_cvref_t<decltype(get(std::declval<Options&>()))>;
  OptionEntry entry;
  entry.group = group;
  entry.key = text.key;
  entry.help = text.help;
  constexpr const Value* kType = nullptr;
  entry.placeholder = text.placeholder != nullptr ? text.placeholder : option_value::placeholder(kType);
  if constexpr (std::is_same_v<Value, bool> || std::is_same_v<Value, std::optional<bool>> ||
                std::is_same_v<Value, Deterministic>) {
    entry.bare = "true";
  }
  entry.read = [get](Options& options, const std::string& typed) {
    auto value = option_value::read(typed, static_cast<const Value*>(nullptr));
    if (value) get(options) = std::move(*value.value);
    return value.error;
  };
  entry.reset = [get](Options& options) {
    // A null optional is "absent" even where that is not the default (check_val_every_n_epoch).
    if constexpr (requires(Value v) { v.has_value(); }) {
      get(options) = std::nullopt;
    } else {
      Options defaults;
      get(options) = get(defaults);
    }
  };
  entry.write = [get](const Options& options) -> std::optional<std::vector<std::string>> {
    const auto written = option_value::write(get(options));
    if (!written) return std::nullopt;
    return std::vector{*written};
  };
  return entry;
}

}  // namespace cxtrain
