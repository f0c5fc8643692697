#pragma once

#include <cstdint>

#include "cxtrain/plugin/fingerprint.h"
#include "cxtrain/plugin/registration.h"
#include "cxtrain/plugin/registry.h"

/// The plugin ABI: one C function that returns one plain struct.
///
/// A plugin is a shared library with this line at file scope of one source file:
///
///     CXTRAIN_PLUGIN("sine")
///
/// It offers what `CXTRAIN_REGISTER` has registered (plugin/registration.h). A function may register instead:
///
///     CXTRAIN_PLUGIN("ddp", [](cxtrain::Registry& registry) { registry.add<...>(...); })
///
/// The loader compares version and fingerprint before it calls anything else. A library that was built
/// against another LibTorch, compiler or cxtrain is thus rejected by name, and does not crash.
extern "C" {

struct cxtrain_plugin {
  std::uint32_t struct_size;  ///< sizeof(cxtrain_plugin) of the builder: later versions only append
  std::uint32_t abi_version;  ///< CXTRAIN_PLUGIN_ABI of the builder
  const char* name;
  const char* fingerprint;  ///< cxtrain, LibTorch, compiler and C++ ABI of the builder
  void (*register_all)(cxtrain::Registry& registry);
};

}  // extern "C"

#define CXTRAIN_PLUGIN_ABI 1
#define CXTRAIN_PLUGIN_SYMBOL "cxtrain_plugin_v1"

namespace cxtrain {

[[gnu::visibility("hidden")]] inline Registration::Function registers_all(
    Registration::Function function = &Registration::add_all) {
  return function;
}

}  // namespace cxtrain

/// `CXTRAIN_PLUGIN(name)` or `CXTRAIN_PLUGIN(name, function)`; the function may be a lambda with commas,
/// which make several arguments.
#define CXTRAIN_PLUGIN(plugin_name, ...)                                                          \
  extern "C" __attribute__((visibility("default"))) const cxtrain_plugin* cxtrain_plugin_v1() {   \
    static const cxtrain_plugin plugin{sizeof(cxtrain_plugin), CXTRAIN_PLUGIN_ABI, plugin_name,   \
                                       CXTRAIN_FINGERPRINT, cxtrain::registers_all(__VA_ARGS__)}; \
    return &plugin;                                                                               \
  }
