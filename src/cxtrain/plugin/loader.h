#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/plugin/registry.h"

namespace cxtrain {

/// Finds plugin files and lets them register what they offer.
///
/// A component `name` of kind `kind` is looked for in a file libcxtrain_<kind>_<name>.so, in this order: the
/// folders of $CXTRAIN_PLUGIN_PATH, beside the program, the installed lib/cxtrain/. Libraries are opened
/// RTLD_NOW | RTLD_LOCAL and never closed: the objects that they made may outlive any owner.
class PluginLoader {
 public:
  explicit PluginLoader(Registry& registry);
  PluginLoader(Registry& registry, std::vector<std::string> folders);

  /// Loads one file (`--plugin FILE`). Throws PluginError naming the file, what was expected and what was
  /// found: no such file, not a plugin, another ABI version, another fingerprint, code that throws. A file
  /// that did not come with the program is first opened in a child process, where it may crash.
  void load(const std::string& path);

  /// Makes sure that the registry has the component, loading the file of its name if it does not. Throws
  /// PluginError naming the components of this kind that were found, the nearest name, and every folder
  /// tried.
  void require(std::string_view kind, std::string_view name);

  /// Names of this kind that are registered or have a file, sorted.
  std::vector<std::string> available(std::string_view kind) const;

 private:
  void load(const std::string& path, bool trusted);

  Registry& registry_;
  std::vector<std::string> folders_;
};

}  // namespace cxtrain
