#include "cxtrain/plugin/loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "cxtrain/config/nearest_name.h"
#include "cxtrain/plugin/plugin_abi.h"

namespace cxtrain {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> default_folders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("CXTRAIN_PLUGIN_PATH")) {
    std::istringstream stream(path);
    for (std::string folder; std::getline(stream, folder, ':');) {
      if (!folder.empty()) folders.push_back(folder);
    }
  }
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  folders.push_back(program.string());
  // The library knows where it is installed, also inside a user's own program.
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&default_folders), &self) != 0 && self.dli_fname != nullptr) {
    folders.push_back((fs::weakly_canonical(self.dli_fname, ignored).parent_path() / "cxtrain").string());
  }
  return folders;
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text.empty() ? "none" : text;
}

}  // namespace

PluginLoader::PluginLoader(Registry& registry) : PluginLoader(registry, default_folders()) {}
PluginLoader::PluginLoader(Registry& registry, std::vector<std::string> folders)
    : registry_(registry), folders_(std::move(folders)) {}

void PluginLoader::load(const std::string& path) {
  if (registry_.has_origin(path)) return;
  if (!fs::exists(path)) throw PluginError("plugin " + path + ": no such file");
  // Without a slash dlopen would search the library path instead.
  void* handle = dlopen(fs::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw PluginError("plugin " + path + " cannot be loaded: " + dlerror());
  using Entry = const cxtrain_plugin* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, CXTRAIN_PLUGIN_SYMBOL));
  if (entry == nullptr) {
    throw PluginError("plugin " + path +
                      ": has no symbol " CXTRAIN_PLUGIN_SYMBOL
                      "; it is not a cxtrain plugin, or one for another major version");
  }
  const cxtrain_plugin* plugin = entry();
  if (plugin->abi_version != CXTRAIN_PLUGIN_ABI || plugin->struct_size < sizeof(cxtrain_plugin)) {
    throw PluginError("plugin " + path + ": ABI version " + std::to_string(plugin->abi_version) +
                      ", expected " + std::to_string(CXTRAIN_PLUGIN_ABI) +
                      "; rebuild it against this cxtrain");
  }
  if (std::string_view(plugin->fingerprint) != CXTRAIN_FINGERPRINT) {
    throw PluginError("plugin " + path + " was built with\n  " + plugin->fingerprint +
                      "\nbut this program with\n  " + CXTRAIN_FINGERPRINT "\nrebuild it with the latter");
  }
  registry_.set_origin(path);
  plugin->register_all(registry_);
}

void PluginLoader::require(std::string_view kind, std::string_view name) {
  if (registry_.find(kind, name) != nullptr) return;
  // A name is part of a file name here: nothing that could leave the folder.
  const bool plain = !name.empty() && name.find_first_of("/\\") == std::string_view::npos;
  for (const std::string& folder : folders_) {
    const fs::path file =
        fs::path(folder) / ("libcxtrain_" + std::string(kind) + "_" + std::string(name) + ".so");
    if (!plain || !fs::exists(file)) continue;
    load(file.string());
    registry_.require(kind, name);
    return;
  }
  const std::vector<std::string> known = available(kind);
  const std::string near = nearest_name(name, known);
  throw PluginError("there is no " + std::string(kind) + " `" + std::string(name) +
                    "`; found: " + join(known, ", ") + (near.empty() ? "" : "; did you mean " + near + "?") +
                    "\n  looked in " + join(folders_, ", "));
}

std::vector<std::string> PluginLoader::available(std::string_view kind) const {
  std::set<std::string> names;
  for (const std::string& name : registry_.names(kind)) names.insert(name);
  const std::string prefix = "libcxtrain_" + std::string(kind) + "_";
  for (const std::string& folder : folders_) {
    std::error_code missing;
    for (const auto& file : fs::directory_iterator(folder, missing)) {
      const std::string stem = file.path().filename().string();
      if (stem.starts_with(prefix) && stem.ends_with(".so")) {
        names.insert(stem.substr(prefix.size(), stem.size() - prefix.size() - 3));
      }
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace cxtrain
