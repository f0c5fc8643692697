#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cxtrain/cli/option_table.h"
#include "cxtrain/config/options.h"

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
Parsed<CheckInterval> read(const std::string& text, const CheckInterval*);
Parsed<Deterministic> read(const std::string& text, const Deterministic*);
Parsed<std::chrono::seconds> read(const std::string& text, const std::chrono::seconds*);
template <Choice Enum>
Parsed<Enum> read(const std::string& text, const Enum*) {
  return parse_choice<Enum>(text);
}

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
Text write(const CheckInterval& value);
Text write(const Deterministic& value);
Text write(std::chrono::seconds value);
template <Choice Enum>
Text write(Enum value) {
  return std::string(word_of(value));
}

template <class T>
Text write(const std::optional<T>& value) {
  return value ? write(*value) : std::nullopt;
}

/// What help shows in place of a value: "N", "X", "TEXT" ...
std::string placeholder(const std::string*);
std::string placeholder(const bool*);
std::string placeholder(const int*);
std::string placeholder(const std::int64_t*);
std::string placeholder(const std::uint64_t*);
std::string placeholder(const double*);
std::string placeholder(const BatchLimit*);
std::string placeholder(const CheckInterval*);
std::string placeholder(const Deterministic*);
std::string placeholder(const std::chrono::seconds*);
template <Choice Enum>
std::string placeholder(const Enum*) {
  std::string words;
  for (const std::string_view word : ChoiceOf<Enum>::words)
    words += (words.empty() ? "" : "|") + std::string(word);
  return words;
}

template <class T>
std::string placeholder(const std::optional<T>*) {
  return placeholder(static_cast<const T*>(nullptr));
}

}  // namespace cxtrain::option_value

/// The accessor of a member of Options, const and not. What it is given is a member, no expression.
#define CXTRAIN_MEMBER(path) \
  [](auto& options) -> auto& { return options.path; }  // NOLINT(bugprone-macro-parentheses)

namespace cxtrain {

/// The groups of the option table, in the order of --help; each function appends its options.
using OptionTable = std::vector<OptionEntry>;

void add_component_options(OptionTable& table);     // option_table_components.cpp
void add_device_options(OptionTable& table);        // option_table_devices.cpp
void add_length_options(OptionTable& table);        // option_table_training.cpp
void add_optimisation_options(OptionTable& table);  // option_table_training.cpp
void add_output_options(OptionTable& table);        // option_table_output.cpp
void add_older_names(OptionTable& table);           // option_table_older_names.cpp
void add_general_options(OptionTable& table);       // option_table_output.cpp
void add_batch_job_options(OptionTable& table);     // option_table_slurm.cpp

/// What the table says about an option beside its member.
struct OptionText {
  const char* key;
  const char* help;
  const char* placeholder = nullptr;  ///< nullptr: by the member's type
  const char* details = "";
};

/// An entry for the member that `get(options)` refers to.
template <class Get>
OptionEntry bind_option(const char* group, const OptionText& text, Get get) {
  using Value = std::remove_cvref_t<decltype(get(std::declval<Options&>()))>;
  OptionEntry entry;
  entry.group = group;
  entry.key = text.key;
  entry.help = text.help;
  entry.details = text.details;
  constexpr const Value* kType = nullptr;
  entry.placeholder =
      text.placeholder != nullptr ? std::string(text.placeholder) : option_value::placeholder(kType);
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
