#include "cxtrain/plugin/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/base/process.h"
#include "cxtrain/base/text.h"
#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/plugin/inspection.h"
#include "cxtrain/plugin/plugin_abi.h"

namespace cxtrain {
namespace {

namespace fs = std::filesystem;

/// Beside the program, and where the library is installed: what lies there came with them.
std::vector<std::string> own_folders() {
  std::vector<std::string> folders;
  folders.push_back(fs::path(program_path()).parent_path().string());
  // The library knows where it is installed, also inside a user's own program.
  if (const std::string folder = library_folder(); !folder.empty()) folders.push_back(folder + "/cxtrain");
  return folders;
}

/// Whoever owns the program can have any code run by its users; so can root, and users themselves.
bool comes_with_program(const std::string& path) {
  struct stat file {
  }, program{};
  if (stat(path.c_str(), &file) != 0) return false;
  const bool of_program = stat(program_path().c_str(), &program) == 0 && file.st_uid == program.st_uid;
  return of_program || file.st_uid == 0 || file.st_uid == geteuid();
}

std::vector<std::string> default_folders() {
  std::vector<std::string> folders;
  if (const char* path = std::getenv("CXTRAIN_PLUGIN_PATH")) {
    std::istringstream stream(path);
    for (std::string folder; std::getline(stream, folder, ':');) {
      if (!folder.empty()) folders.push_back(folder);
    }
  }
  const std::vector<std::string> own = own_folders();
  folders.insert(folders.end(), own.begin(), own.end());
  return folders;
}

std::string joined_or_none(const std::vector<std::string>& parts) {
  return parts.empty() ? "none" : joined(parts);
}

/// Its description, checked as far as it can be without trusting it.
const cxtrain_plugin& open_plugin(const std::string& path) {
  const auto refuse = [&path](const std::string& why, MessageCode code = MessageCode::plugin_failed) {
    return PluginError("plugin " + path + ": " + why, code);
  };
  // Without a slash dlopen would search the library path instead.
  std::error_code ignored;
  void* handle = dlopen(fs::absolute(path, ignored).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw PluginError("plugin " + path + " cannot be loaded: " + dlerror());
  void* symbol = dlsym(handle, CXTRAIN_PLUGIN_SYMBOL);
  if (symbol == nullptr) {
    throw refuse("has no symbol " CXTRAIN_PLUGIN_SYMBOL
                 "; it is not a cxtrain plugin, or one for another major version");
  }
  Dl_info library{};
  const ElfW(Sym)* described = nullptr;
  if (dladdr1(symbol, &library, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&described)),
              RTLD_DL_SYMENT) != 0 &&
      described != nullptr && ELF64_ST_TYPE(described->st_info) == STT_OBJECT) {
    throw refuse("its symbol " CXTRAIN_PLUGIN_SYMBOL
                 " is data, not a function; use the macro CXTRAIN_PLUGIN");
  }
  using Entry = const cxtrain_plugin* (*)();
  const cxtrain_plugin* plugin = reinterpret_cast<Entry>(symbol)();
  if (plugin == nullptr) throw refuse(CXTRAIN_PLUGIN_SYMBOL "() returns null; use the macro CXTRAIN_PLUGIN");
  if (plugin->abi_version != CXTRAIN_PLUGIN_ABI || plugin->struct_size < sizeof(cxtrain_plugin)) {
    throw refuse("ABI version " + std::to_string(plugin->abi_version) + ", expected " +
                     std::to_string(CXTRAIN_PLUGIN_ABI) + "; rebuild it against this cxtrain",
                 MessageCode::plugin_mismatch);
  }
  const auto lacks = [&](const char* field) {
    return refuse(std::string("has no ") + field + "; use the macro CXTRAIN_PLUGIN");
  };
  if (plugin->fingerprint == nullptr) throw lacks("fingerprint");
  if (std::string_view(plugin->fingerprint) != CXTRAIN_FINGERPRINT) {
    throw PluginError("plugin " + path + " was built with\n  " + plugin->fingerprint +
                          "\nbut this program with\n  " + CXTRAIN_FINGERPRINT "\nrebuild it with the latter",
                      MessageCode::plugin_mismatch);
  }
  if (plugin->register_all == nullptr) throw lacks("register_all");
  return *plugin;
}

void register_plugin(const cxtrain_plugin& plugin, const std::string& path, Registry& registry) {
  try {
    plugin.register_all(registry);
  } catch (const PluginError&) {
    throw;
  } catch (const std::exception& error) {
    throw PluginError("plugin " + path + ": cannot register its components: " + message_of(error));
  } catch (...) {
    throw PluginError("plugin " + path + ": cannot register its components: " + message_of_other_exception());
  }
}

}  // namespace

PluginLoader::PluginLoader(Registry& registry) : PluginLoader(registry, default_folders()) {}
PluginLoader::PluginLoader(Registry& registry, std::vector<std::string> folders)
    : registry_(registry), folders_(std::move(folders)) {}

void PluginLoader::load(const std::string& path) { load(path, /*trusted=*/false); }

void PluginLoader::load(const std::string& path, bool trusted) {
  if (registry_.has_origin(path)) return;
  if (const std::string why = why_no_shared_library(path); !why.empty()) {
    throw PluginError("plugin " + shortened(path, 300) + ": " + why);
  }
  if (!trusted) {
    const std::optional<ChildFailure> failure = try_in_child([&] {
      Registry scratch;
      register_plugin(open_plugin(path), path, scratch);
    });
    if (failure && failure->thrown == ChildFailure::Thrown::plugin_error)
      throw PluginError(failure->what, failure->code);
    if (failure && failure->thrown == ChildFailure::Thrown::other)
      throw PluginError("plugin " + path + ": its code has thrown: " + failure->what);
    if (failure) throw PluginError("plugin " + path + ": its code " + failure->what);
  }
  registry_.set_origin(path);
  register_plugin(open_plugin(path), path, registry_);
}

void PluginLoader::require(std::string_view kind, std::string_view name) {
  if (registry_.find(kind, name) != nullptr) return;
  // A name is part of a file name here: nothing that could leave the folder.
  const bool plain = !name.empty() && name.find_first_of("/\\") == std::string_view::npos;
  for (const std::string& folder : folders_) {
    const fs::path file =
        fs::path(folder) / ("libcxtrain_" + std::string(kind) + "_" + std::string(name) + ".so");
    std::error_code unreachable;  // a name too long, a loop of links: it is not there
    if (!plain || !fs::exists(file, unreachable)) continue;
    const std::vector<std::string> own = own_folders();
    const bool is_own = std::ranges::find(own, folder) != own.end();
    if (is_own && !comes_with_program(file.string())) {
      throw PluginError(
          "plugin " + file.string() +
              " belongs to another user than the program and you; if you trust its code, name it "
              "with --plugin",
          MessageCode::unsafe_file);
    }
    load(file.string(), /*trusted=*/is_own);
    registry_.require(kind, name);
    return;
  }
  const std::vector<std::string> known = available(kind);
  const std::string near = nearest_name(name, known);
  throw PluginError(
      "there is no " + std::string(kind) + " `" + std::string(name) + "`; found: " + joined_or_none(known) +
          (near.empty() ? "" : "; did you mean " + near + "?") + "\n  looked in " + joined_or_none(folders_),
      MessageCode::unknown_name);
}

std::vector<std::string> PluginLoader::available(std::string_view kind) const {
  std::set<std::string> names;
  for (const std::string& name : registry_.names(kind)) names.insert(name);
  const std::string prefix = "libcxtrain_" + std::string(kind) + "_";
  for (const std::string& folder : folders_) {
    std::error_code missing;
    for (fs::directory_iterator file(folder, missing), end; !missing && file != end;
         file.increment(missing)) {
      const std::string stem = file->path().filename().string();
      if (stem.starts_with(prefix) && stem.ends_with(".so")) {
        names.insert(stem.substr(prefix.size(), stem.size() - prefix.size() - 3));
      }
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace cxtrain
