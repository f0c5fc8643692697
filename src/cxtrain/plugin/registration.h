#pragma once

#include <vector>

#include "cxtrain/plugin/registry.h"

/// Components that register themselves, for a plugin or a program without a function that registers:
///
///     CXTRAIN_REGISTER(MyModel, "mine", "my model");         // at file scope, in any source file
///     CXTRAIN_REGISTER(MyCallback, "ema", "a moving average");
///
/// `run_main` and `run` register the program's components, and `CXTRAIN_PLUGIN("mine")` the plugin's.
namespace cxtrain {

/// Hidden: each library and each program keeps its own list.
class [[gnu::visibility("hidden")]] Registration {
 public:
  using Function = void (*)(Registry&);

  explicit Registration(Function add) { functions().push_back(add); }

  /// Registers every component of this library or program, in the order of each source file.
  static void add_all(Registry & registry) {
    for (const Function add : functions()) add(registry);
  }

 private:
  static std::vector<Function>& functions() {
    static std::vector<Function> all;
    return all;
  }
};

}  // namespace cxtrain

#define CXTRAIN_JOINED(a, b) a##b
#define CXTRAIN_REGISTRATION(number) CXTRAIN_JOINED(cxtrain_registration_, number)

/// `CXTRAIN_REGISTER(Class, name, help)` at file scope: a model, data module, callback or logger, whose
/// arguments are in `Class::Args`. A component of a kind with traits has them as a fourth argument.
#define CXTRAIN_REGISTER(Class, ...)                                    \
  static const cxtrain::Registration CXTRAIN_REGISTRATION(__COUNTER__)( \
      [](cxtrain::Registry& registry) { registry.add<Class>(__VA_ARGS__); })
