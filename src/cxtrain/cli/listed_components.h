#pragma once

#include <array>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cli/setting.h"
#include "cxtrain/config/options.h"

/// Components of which a run has any number, each named once: `--callbacks.ema`, `--callbacks.ema.decay
/// 0.99`,
/// `--callbacks.ema false`; the same for `--loggers`. They come from plugins and from programs of a user's
/// own.
namespace cxtrain {

struct ListedComponents {
  const char* key;   ///< "callbacks"
  const char* kind;  ///< the registry's: "callback"
  std::vector<NamedOptions> Options::*list;
};

inline constexpr std::array<ListedComponents, 2> kListedComponents{
    {{"callbacks", "callback", &Options::callback_components}, {"loggers", "logger", &Options::loggers}}};

/// Applies a setting that no option of the program has. False where it is none of such a component.
bool apply_listed_component(const Setting& setting, Options& options, std::vector<Problem>& problems);

}  // namespace cxtrain
