#include "cxtrain/plugin/loader.h"

#include <elf.h>
#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <random>

#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/strategy/strategy.h"
#include "support/catch.h"
#include "support/error_text.h"
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
  std::vector<Problem> problems;
  const Arguments defaults(registry.require("strategy", "ddp").arguments, {}, "strategy.", problems);
  CHECK(registry.make<Strategy>("ddp", defaults) != nullptr);
  CHECK(registry.require("strategy", "ddp").origin == kPlugins + "/libcxtrain_strategy_ddp.so");
  CHECK_THAT(loader.available("strategy"), Catch::Matchers::VectorContains(std::string("single")));
}

TEST_CASE("an unknown name is refused with those found, the nearest, and the places looked in") {
  Registry registry;
  PluginLoader loader(registry, {"/nonexistent", kPlugins});
  CHECK_THAT(test::error_of([&] { loader.require("strategy", "sinlge"); }),
             test::contains(test::code(MessageCode::unknown_name)) && test::contains("`sinlge`") &&
                 test::contains("ddp, ddp_spawn, dp, pipeline, single") && test::contains("single?") &&
                 test::contains("/nonexistent, " + kPlugins));
  CHECK_THROWS_AS(loader.require("strategy", "../ddp"), PluginError);
}

TEST_CASE("files that are no plugin for this program are refused, each for its reason") {
  Registry registry;
  PluginLoader loader(registry, {});
  const test::TempDir dir;
  CHECK_THAT(test::error_of([&] { loader.load(dir.file("none.so")); }),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("none.so") &&
                 test::contains("no such file"));
  CHECK_THAT(test::error_of([&] { loader.load(dir.write("text.so", "not a library")); }),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("text.so") &&
                 test::contains("shared library"));
  CHECK_THAT(test::error_of([&] { loader.load(kBad + "/no_symbol.so"); }),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("cxtrain_plugin_v1"));
  CHECK_THAT(test::error_of([&] { loader.load(kBad + "/wrong_abi.so"); }),
             test::contains(test::code(MessageCode::plugin_mismatch)) && test::contains("wrong_abi.so") &&
                 test::contains("999"));
  CHECK_THAT(test::error_of([&] { loader.load(kBad + "/foreign_torch.so"); }),
             test::contains(test::code(MessageCode::plugin_mismatch)) && test::contains("LibTorch 1.0.0") &&
                 test::contains(CXTRAIN_FINGERPRINT));
  CHECK(registry.names("strategy").empty());
}

/// Loads a copy of the plugin that does what its name says; what the loader says to it.
std::string complaint(const std::string& name) {
  const test::TempDir dir;
  const std::string copy = dir.file(name + ".so");
  std::filesystem::copy_file(kBad + "/misbehaving.so", copy);
  Registry registry;
  try {
    PluginLoader(registry, {}).load(copy);
  } catch (const PluginError& error) {
    CHECK_THAT(printed(error), test::contains(copy));
    return printed(error);
  }
  return {};
}

TEST_CASE("code of a plugin that goes wrong is named, whatever it does") {
  CHECK(complaint("well_behaved").empty());
  CHECK_THAT(complaint("null_plugin"), test::contains("returns null"));
  CHECK_THAT(complaint("null_fingerprint"),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("fingerprint"));
  CHECK_THAT(complaint("null_register_all"), test::contains("has no register_all"));
  CHECK_THAT(complaint("wild_fingerprint"),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("signal 11"));
  CHECK_THAT(complaint("register_throws"), test::contains("no luck"));
  CHECK_THAT(complaint("register_throws_a_number"),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("std::exception"));
  CHECK_THAT(complaint("register_crashes"),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("signal 11"));
  CHECK_THAT(complaint("register_exits"),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("status 0"));
  CHECK_THAT(complaint("entry_throws"), test::contains("no luck"));
  CHECK_THAT(complaint("entry_throws_a_number"),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("std::exception"));
  CHECK_THAT(complaint("opening_throws_a_number"),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("signal 6"));
  CHECK_THAT(complaint("opening_crashes"),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("signal 11"));
  Registry registry;
  CHECK_THAT(test::error_of([&] { PluginLoader(registry, {}).load(kBad + "/data_symbol.so"); }),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("data_symbol.so") &&
                 test::contains("is data"));
}

TEST_CASE("a plugin that is cut short or damaged anywhere is refused, or works") {
  const std::string whole = test::slurp(kBad + "/no_symbol.so");
  const test::TempDir dir;
  Registry registry;
  PluginLoader loader(registry, {});
  for (int part = 0; part < 24; ++part) {
    const std::size_t length = whole.size() * static_cast<std::size_t>(part) / 24;
    CAPTURE(length);
    CHECK_THROWS_AS(loader.load(dir.write("cut.so", whole.substr(0, length))), PluginError);
  }
  std::mt19937 random(7);
  for (int damage = 0; damage < 60; ++damage) {
    std::string text = whole;
    const std::size_t near = damage < 40 ? 512 : text.size();  // mostly in the headers
    const std::size_t at = random() % near;
    text[at] = static_cast<char>(text[at] ^ (1 << (random() % 8)));
    CAPTURE(at);
    CHECK_THROWS_AS(loader.load(dir.write("damaged.so", text)), PluginError);
  }
}

TEST_CASE("a plugin whose header points so far that the end of what it points at wraps around is refused") {
  const std::string whole = test::slurp(kBad + "/no_symbol.so");
  const test::TempDir dir;
  Registry registry;
  PluginLoader loader(registry, {});
  const std::uint64_t far = ~std::uint64_t{0} - 15;
  for (const auto& [field, what] : {std::pair{offsetof(Elf64_Ehdr, e_phoff), "segments"},
                                    std::pair{offsetof(Elf64_Ehdr, e_shoff), "sections"}}) {
    std::string text = whole;
    text.replace(field, sizeof far, reinterpret_cast<const char*>(&far), sizeof far);
    CHECK_THAT(test::error_of([&] { loader.load(dir.write("far.so", text)); }),
               test::contains(test::code(MessageCode::plugin_failed)) && test::contains(what));
  }
}

TEST_CASE("what is no file of its own is refused as a plugin without being opened") {
  const test::TempDir dir;
  Registry registry;
  PluginLoader loader(registry, {dir.path()});
  REQUIRE(mkfifo(dir.file("fifo.so").c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop.so", dir.file("loop.so"));
  CHECK_THAT(test::error_of([&] { loader.load(dir.file("fifo.so")); }),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("fifo.so") &&
                 test::contains("regular file"));
  CHECK_THAT(test::error_of([&] { loader.load("/dev/zero"); }),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("/dev/zero") &&
                 test::contains("regular file"));
  CHECK_THAT(test::error_of([&] { loader.load(dir.path()); }),
             test::contains(test::code(MessageCode::plugin_failed)) && test::contains("regular file"));
  CHECK_THAT(
      test::error_of([&] { loader.load(dir.file("loop.so")); }),
      test::contains(test::code(MessageCode::plugin_failed)) && test::contains("levels of symbolic links"));
  for (const std::size_t length : {300, 5000}) {
    CHECK_THAT(
        test::error_of([&] { loader.load(std::string(length, 'x')); }),
        test::contains(test::code(MessageCode::plugin_failed)) && test::contains("File name too long"));
    CHECK_THAT(test::error_of([&] { loader.require("strategy", std::string(length, 'x')); }),
               test::contains(test::code(MessageCode::unknown_name)) && test::contains("strategy"));
  }
}

TEST_CASE("a class that fills the arguments of its base class itself is registered without arguments") {
  class Base : public Callback {
   public:
    struct Args {
      std::vector<double> steps;  // not for the command line
    };
    explicit Base(Args args) : steps(std::move(args.steps)) {}
    std::vector<double> steps;
  };
  class Derived : public Base {
   public:
    Derived() : Base({.steps = {1, 2}}) {}
  };
  Registry registry;
  registry.add<Derived>("derived", "");
  CHECK(registry.require("callback", "derived").arguments.empty());
  const auto made = registry.make<Callback>("derived", {});
  CHECK(dynamic_cast<const Base&>(*made).steps == std::vector<double>{1, 2});
}

TEST_CASE("two plugins with one name are refused, naming both files") {
  Registry registry;
  registry.set_origin("first.so");
  const auto add = [&] {
    registry.add(
        "twice", "", {}, +[](const NoArgs&) { return std::unique_ptr<Strategy>(); });
  };
  add();
  registry.set_origin("second.so");
  CHECK_THROWS_WITH(add(), test::contains("first.so") && test::contains("second.so"));
}

}  // namespace
}  // namespace cxtrain
