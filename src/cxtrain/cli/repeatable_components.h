#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cli/setting.h"
#include "cxtrain/config/options.h"

/// Components of which a run has any number, each named once: `--callbacks.ema`, `--callbacks.ema.decay
/// 0.99`, `--callbacks.ema false`; the same for `--loggers`. `#2` at the name makes another one of the class:
/// `--callbacks.model_checkpoint#2.monitor loss`; in YAML, a list does. They come with the program, from
/// plugins, and from programs of a user's own.
namespace cxtrain {

struct RepeatableComponents {
  const char* key;  ///< "callbacks"
  std::vector<NamedOptions> Options::*list;
};

inline constexpr std::array<RepeatableComponents, 2> kRepeatableComponents{
    {{"callbacks", &Options::callbacks}, {"loggers", &Options::loggers}}};

/// Whether the key is that of a section, "callbacks", or of one of its components or their arguments.
bool is_repeatable_section(std::string_view key);
bool is_repeatable_component(std::string_view key);
/// Whether the key is that of a component: "callbacks.ema", without an argument.
bool is_name_of_repeatable_component(std::string_view key);

/// The key of an argument that has an older name, `callbacks.early_stopping_patience`; any other key as it
/// is.
std::string canonical_repeatable_key(const std::string& key);

/// Applies the settings among these that are of such components, older names last: null for
/// `callbacks.early_stopping_monitor` is what switched early stopping off.
void apply_repeatable_components(std::span<const Setting> settings, Options& options,
                                 std::vector<Problem>& problems);

}  // namespace cxtrain
