#include <cxtrain/cli/main.h>

#include "sine.h"

int main(int argc, char** argv) {
  return cxtrain::run_main(argc, argv, [](cxtrain::Registry& registry) {
    registry.add<cxtrain::Module>(
        "sine", "a small MLP that learns a sine",
        {{"hidden", cxtrain::ArgumentSpec::Type::integer, "32", "units", {}}},
        [](const auto& args) { return std::make_unique<Sine>(args.integer("hidden")); });
  });
}
