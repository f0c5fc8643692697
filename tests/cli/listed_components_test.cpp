#include "cxtrain/cli/listed_components.h"

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/components.h"
#include "cxtrain/cli/yaml_config.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

ParsedCommandLine parse(std::vector<const char*> words, const std::string& file = "") {
  return read_command_line(words, [&](const std::string&) { return std::optional(file); });
}

TEST_CASE("callbacks and loggers of a user's own are named with their arguments") {
  const auto parsed = parse({"--callbacks.ema.decay", "0.9", "--callbacks.writer", "--callbacks.lr_monitor",
                             "true", "--loggers.rows.file=r.txt"});
  CHECK(parsed.problems.empty());
  CHECK(parsed.options.callbacks.lr_monitor);
  CHECK((parsed.options.callback_components ==
         std::vector<NamedOptions>{{"ema", {{"decay", "0.9"}}}, {"writer", {}}}));
  CHECK((parsed.options.loggers == std::vector<NamedOptions>{{"rows", {{"file", "r.txt"}}}}));
}

TEST_CASE("a file names them, the command line switches them off") {
  const std::string file = "callbacks:\n  ema:\n    decay: 0.9\n  writer: true\nloggers:\n  rows: true\n";
  const auto parsed = parse({"--config", "f.yaml", "--callbacks.ema", "false"}, file);
  CHECK(parsed.problems.empty());
  CHECK((parsed.options.callback_components == std::vector<NamedOptions>{{"writer", {}}}));
  const auto again = parse({"--config", "f.yaml"}, to_yaml(parse({"--config", "f.yaml"}, file).options));
  CHECK(again.problems.empty());
  CHECK((again.options.callback_components ==
         std::vector<NamedOptions>{{"ema", {{"decay", "0.9"}}}, {"writer", {}}}));
  CHECK((again.options.loggers == std::vector<NamedOptions>{{"rows", {}}}));
}

TEST_CASE("what is wrong with them is said before anything starts") {
  CHECK(parse({"--callbacks.ema", "often"}).problems.at(0).message.find("true or false") !=
        std::string::npos);

  class Ema : public Callback {};
  Registry registry;
  registry.add<Callback>("ema", "an average", {{"decay", ArgumentSpec::Type::real, "0.99", "", {}}},
                         [](const auto&) { return std::make_unique<Ema>(); });
  std::vector<Problem> problems;
  Options options = parse({"--callbacks.ema.dekay", "1", "--callbacks.lr_monitr"}).options;
  load_components(registry, options, problems);
  std::string text;
  for (const Problem& problem : problems)
    text += problem.option + ": " + problem.message + " " + problem.hint + "\n";
  CHECK_THAT(text, test::contains("callbacks.ema.dekay"));
  CHECK_THAT(text, test::contains("callbacks.lr_monitr") && test::contains("--callbacks.lr_monitor"));

  problems.clear();
  options = parse({"--callbacks.ema.decay", "0.5"}).options;
  const Components components = load_components(registry, options, problems);
  REQUIRE(components.callbacks.size() == 1);
  CHECK(components.callbacks[0].second.real("decay") == 0.5);
  CHECK(make_callbacks(registry, components).size() == 1);
}

}  // namespace
}  // namespace cxtrain
