#include "cxtrain/cli/repeatable_components.h"

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/components.h"
#include "cxtrain/cli/yaml_config.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

ParsedCommandLine parse(std::vector<const char*> words, const std::string& file = "") {
  return read_command_line(words, [&](const std::string&) { return std::optional(file); });
}

class Ema : public Callback {
 public:
  struct Args {
    double decay = 0.99;

    void fields(auto&& field) { field("decay", decay, "of the average"); }
  };
  explicit Ema(const Args&) {}
};

TEST_CASE("callbacks and loggers of a user's own are named with their arguments") {
  const auto parsed = parse({"--callbacks.ema.decay", "0.9", "--callbacks.writer", "--callbacks.lr_monitor",
                             "true", "--loggers.rows.file=r.txt"});
  CHECK(parsed.problems.empty());
  CHECK((parsed.options.callbacks ==
         std::vector<NamedOptions>{{"ema", {{"decay", "0.9"}}}, {"writer", {}}, {"lr_monitor", {}}}));
  CHECK((parsed.options.loggers == std::vector<NamedOptions>{{"rows", {{"file", "r.txt"}}}}));
}

TEST_CASE("a file names them, the command line switches them off") {
  const std::string file = "callbacks:\n  ema:\n    decay: 0.9\n  writer: true\nloggers:\n  rows: true\n";
  const auto parsed = parse({"--config", "f.yaml", "--callbacks.ema", "false"}, file);
  CHECK(parsed.problems.empty());
  CHECK((parsed.options.callbacks == std::vector<NamedOptions>{{"writer", {}}}));
  const auto again = parse({"--config", "f.yaml"}, to_yaml(parse({"--config", "f.yaml"}, file).options));
  CHECK(again.problems.empty());
  CHECK((again.options.callbacks == std::vector<NamedOptions>{{"ema", {{"decay", "0.9"}}}, {"writer", {}}}));
  CHECK((again.options.loggers == std::vector<NamedOptions>{{"rows", {}}}));
}

TEST_CASE("what is wrong with them is said before anything starts") {
  CHECK_THAT(parse({"--callbacks.ema", "often"}).problems.at(0).message, test::contains("'often'"));

  Registry registry;
  registry.add<Ema>("ema", "an average");
  std::vector<Problem> problems;
  Options options = parse({"--callbacks.ema.dekay", "1", "--callbacks.lr_monitr"}).options;
  load_components(registry, options, problems);
  std::string text;
  for (const Problem& problem : problems) text += with_code(to_line(problem), problem.code) + "\n";
  CHECK_THAT(text, test::contains("callbacks.ema.dekay"));
  CHECK_THAT(text, test::contains("callbacks.lr_monitr: ") &&
                       test::contains(test::code(MessageCode::unknown_name)) && test::contains("lr_monitor"));

  problems.clear();
  options = parse({"--callbacks.ema.decay", "0.5"}).options;
  const Components components = load_components(registry, options, problems);
  REQUIRE(components.chosen.callbacks.size() == 3);  // the progress bar and checkpoints, too
  CHECK(components.chosen.callbacks[0].name == "ema");
  CHECK(components.chosen.callbacks[0].arguments.text("decay") == "0.5");
}

TEST_CASE("early stopping has its arguments, and a name of the time before it had any") {
  using Named = std::vector<NamedOptions>;
  const Named patient{{"early_stopping", {{"monitor", "loss"}, {"patience", "5"}}}};
  CHECK((parse({"--callbacks.early_stopping.monitor", "loss", "--callbacks.early_stopping_patience=5"})
             .options.callbacks == patient));
  // As every file had it that a run without early stopping wrote.
  const std::string off =
      "callbacks:\n  early_stopping_monitor: null\n  early_stopping_mode: min\n  early_stopping_patience: 3\n"
      "  early_stopping_min_delta: 0\n  lr_monitor: true\n  device_stats: false\n";
  CHECK((parse({"--config", "f.yaml"}, off).options.callbacks == Named{{"lr_monitor", {}}}));
  CHECK((parse({"--config", "f.yaml", "--callbacks.early_stopping_monitor=loss"}, off).options.callbacks ==
         Named{{"lr_monitor", {}}, {"early_stopping", {{"monitor", "loss"}}}}));
  const auto twice = parse({"--config", "f.yaml"},
                           "callbacks:\n  early_stopping_mode: max\n"
                           "  early_stopping: {mode: min}\n");
  REQUIRE(twice.problems.size() == 1);
  CHECK(twice.problems[0].code == MessageCode::conflicting_options);

  Registry registry;
  const auto refused = [&](std::vector<const char*> words) {
    std::vector<Problem> problems;
    load_components(registry, parse(std::move(words)).options, problems);
    std::string text;
    for (const Problem& problem : problems) text += with_code(to_line(problem), problem.code) + "\n";
    return text;
  };
  CHECK_THAT(refused({"--callbacks.early_stopping.patience", "5"}),
             test::contains(test::code(MessageCode::missing_value)) &&
                 test::contains("callbacks.early_stopping.monitor:"));
  CHECK_THAT(refused({"--callbacks.early_stopping_monitor", "a", "--callbacks.early_stopping_mode", "mim",
                      "--callbacks.early_stopping_patience", "-1"}),
             test::contains(test::code(MessageCode::unknown_name)) &&
                 test::contains("callbacks.early_stopping.mode:") && test::contains("min, max") &&
                 test::contains("'mim'") && test::contains("callbacks.early_stopping.patience:") &&
                 test::contains("'-1'"));
}

TEST_CASE("a class has several callbacks, each with its arguments") {
  const std::vector<NamedOptions> both{{"ema", {{"decay", "0.9"}}}, {"ema#2", {{"decay", "0.5"}}}};
  const auto parsed = parse({"--callbacks.ema.decay", "0.9", "--callbacks.ema#2.decay", "0.5"});
  CHECK(parsed.problems.empty());
  CHECK((parsed.options.callbacks == both));
  CHECK((parse({"--config", "f.yaml"}, to_yaml(parsed.options)).options.callbacks == both));
  const auto listed =
      parse({"--config", "f.yaml"}, "callbacks:\n  ema:\n    - decay: 0.9\n    - {decay: 0.5}\n");
  CHECK(listed.problems.empty());
  CHECK((listed.options.callbacks == both));
  CHECK_THAT(parse({"--config", "f.yaml"}, "callbacks:\n  ema: [[1]]\n").problems.at(0).message,
             test::contains("a list of components"));

  Registry registry;
  registry.add<Ema>("ema", "an average");
  std::vector<Problem> problems;
  Options options = parsed.options;
  options.model.name = "";
  const Components components = load_components(registry, options, problems);
  CHECK(problems.empty());
  REQUIRE(components.chosen.callbacks.size() >= 2);
  CHECK(components.chosen.callbacks[0].name == "ema");
  CHECK(components.chosen.callbacks[1].name == "ema");
  CHECK(components.chosen.callbacks[1].arguments.values().at("decay") == "0.5");
  CHECK((with_all_arguments(options, components).callbacks == both));
}

}  // namespace
}  // namespace cxtrain
