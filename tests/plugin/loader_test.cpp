#include "cxtrain/plugin/loader.h"

#include "cxtrain/base/error.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/strategy/strategy.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace cxtrain {
namespace {

const std::string kPlugins = CXTRAIN_PLUGIN_DIR;
const std::string kBad = CXTRAIN_TEST_PLUGIN_DIR;

TEST_CASE("a strategy is found by its name and made") {
  Registry registry;
  PluginLoader loader(registry, {"/nonexistent", kPlugins});
  loader.require("strategy", "ddp");
  loader.require("strategy", "ddp");
  CHECK(registry.make<Strategy>("ddp", {}) != nullptr);
  CHECK(registry.require("strategy", "ddp").origin == kPlugins + "/libcxtrain_strategy_ddp.so");
  CHECK_THAT(loader.available("strategy"), Catch::Matchers::VectorContains(std::string("single")));
}

TEST_CASE("an unknown name is refused with those found, the nearest, and the places looked in") {
  Registry registry;
  PluginLoader loader(registry, {"/nonexistent", kPlugins});
  CHECK_THROWS_WITH(loader.require("strategy", "sinlge"),
                    test::contains("found: ddp, ddp_spawn, dp, single") &&
                        test::contains("did you mean single?") &&
                        test::contains("/nonexistent, " + kPlugins));
  CHECK_THROWS_AS(loader.require("strategy", "../ddp"), PluginError);
}

TEST_CASE("files that are no plugin for this program are refused, each for its reason") {
  Registry registry;
  PluginLoader loader(registry, {});
  const test::TempDir dir;
  CHECK_THROWS_WITH(loader.load(dir.file("none.so")), test::contains("no such file"));
  CHECK_THROWS_WITH(loader.load(dir.write("text.so", "not a library")), test::contains("cannot be loaded"));
  CHECK_THROWS_WITH(loader.load(kBad + "/no_symbol.so"), test::contains("has no symbol cxtrain_plugin_v1"));
  CHECK_THROWS_WITH(loader.load(kBad + "/wrong_abi.so"), test::contains("ABI version 999, expected 1"));
  CHECK_THROWS_WITH(loader.load(kBad + "/foreign_torch.so"),
                    test::contains("LibTorch 1.0.0") && test::contains(CXTRAIN_FINGERPRINT));
  CHECK(registry.names("strategy").empty());
}

TEST_CASE("two plugins with one name are refused, naming both files") {
  Registry registry;
  registry.set_origin("first.so");
  registry.add<Strategy>("twice", "", {}, [](const Arguments&) { return nullptr; });
  registry.set_origin("second.so");
  CHECK_THROWS_WITH(registry.add<Strategy>("twice", "", {}, [](const Arguments&) { return nullptr; }),
                    test::contains("first.so") && test::contains("second.so"));
}

}  // namespace
}  // namespace cxtrain
