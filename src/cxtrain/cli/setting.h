#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/config/options.h"

namespace cxtrain {

/// One `key: value` that the user wrote, somewhere.
struct Setting {
  std::string key;  ///< as written, with underscores: "trainer.max_epochs", "max_epochs", "model.layers"
  std::optional<std::string> value;  ///< absent: null, which resets
  std::string written;               ///< how messages call it: "--max-epochs", "gpt.yaml line 3: max_epochs"
};

/// The settings without those that a later one of the same option replaces, as a command line is read:
/// `$COMMON --max_epochs 3` has the last word. Options that collect values keep all.
std::vector<Setting> last_of_each(const std::vector<Setting>& settings);

/// Applies the settings of one source (a file, or the command line) to the options, in a fixed order of its
/// own: the names of components before their arguments. A component that gets another name, having had one,
/// loses the arguments that it had from earlier sources. Settings that are unknown (with the nearest name, or
/// with what to use instead of an argument that only Lightning has), malformed, given twice or, under an
/// older name, with another value are problems.
void apply_settings(const std::vector<Setting>& settings, Options& options, std::vector<Problem>& problems);

}  // namespace cxtrain
