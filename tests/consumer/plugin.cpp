#include <cxtrain/plugin/plugin_abi.h>

#include "sine.h"

CXTRAIN_PLUGIN("sine", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::Module>(
      "sine", "a small MLP that learns a sine",
      {{"hidden", cxtrain::ArgumentSpec::Type::integer, "32", "units", {}}},
      [](const auto& args) { return std::make_unique<Sine>(args.integer("hidden")); });
})
