#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <string>

#include "cxtrain/plugin/plugin_abi.h"

/// A plugin that does what its file's name says: the tests copy it under many names.
namespace {

std::string own_name() {
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&own_name), &self);
  const std::string path = self.dli_fname;
  const std::size_t begin = path.rfind('/') + 1;
  return path.substr(begin, path.rfind('.') - begin);
}

void misbehave(const std::string& when) {
  const std::string name = own_name();
  if (name == when + "_throws") throw std::runtime_error("no luck");
  if (name == when + "_throws_a_number") throw 42;
  if (name == when + "_crashes") raise(SIGSEGV);
  if (name == when + "_exits") _exit(0);
}

const bool opened = (misbehave("opening"), true);

void register_all(cxtrain::Registry&) { misbehave("register"); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const cxtrain_plugin* cxtrain_plugin_v1() {
  misbehave("entry");
  static cxtrain_plugin plugin{sizeof(cxtrain_plugin), CXTRAIN_PLUGIN_ABI, "misbehaving", CXTRAIN_FINGERPRINT,
                               register_all};
  const std::string name = own_name();
  if (name == "null_plugin") return nullptr;
  if (name == "null_fingerprint") plugin.fingerprint = nullptr;
  if (name == "null_register_all") plugin.register_all = nullptr;
  if (name == "wild_fingerprint") plugin.fingerprint = reinterpret_cast<const char*>(std::uintptr_t{8});
  return opened ? &plugin : nullptr;
}
