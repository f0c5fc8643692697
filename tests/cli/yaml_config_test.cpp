#include "cxtrain/cli/yaml_config.h"

#include <set>
#include "support/catch.h"

#include "cxtrain/cli/option_table.h"
#include "support/random_texts.h"

using namespace cxtrain;

namespace {

Options reload(const std::string& yaml) {
  std::vector<Problem> problems;
  Options options;
  apply_settings(read_yaml(yaml, "config.yaml", problems), options, problems);
  for (const Problem& problem : problems) UNSCOPED_INFO(problem.option << ": " << problem.message);
  CHECK(problems.empty());
  return options;
}

/// Options of which every one may have any value that a user can give it.
class RandomOptions {
 public:
  explicit RandomOptions(unsigned seed) : random_(seed) {}

  Options make() {
    Options options;
    for (const OptionEntry& entry : option_table()) {
      if (!entry.saved || random_.chance(3)) continue;
      if (random_.chance(8)) {
        entry.reset(options);
      } else {
        // Where a text is no number, the option stays as it is.
        entry.read(options, random_.chance(2) ? random_.text() : number());
        const Options& same = options;
        if (!(same == options)) entry.reset(options);  // NaN, which equals nothing
      }
    }
    for (const ComponentEntry& component : component_table()) {
      if (component.saved) add_arguments(component.key, component.args(options));
    }
    for (auto* list : {&options.callbacks, &options.loggers}) {
      static const std::vector<std::string> kNames{"ema", "null",     "007",  "true",
                                                   "- x", "\xc3\xbc", "a: b", "~"};
      for (const std::string& name : kNames) {
        if (!random_.chance(6)) continue;
        list->push_back({name, {}});
        add_arguments(name, list->back().args);
      }
    }
    return options;
  }

 private:
  std::string number() {
    static const std::vector<std::string> kShort{"true",  "0",    "7",      "0.125", "1.0",    "-1",
                                                 "3e-05", "007",  "0.1",    "1e300", "1e-310", "inf",
                                                 "nan",   "-0.0", "[1, 2]", "warn"};
    static const std::vector<std::string> kLong{"9223372036854775807", "18446744073709551615",
                                                "0.30000000000000004"};
    const auto& list = random_.chance(5) ? kLong : kShort;
    return list[random_.pick(list.size())];
  }

  void add_arguments(const std::string& owner, std::map<std::string, std::string>& arguments) {
    const std::string prefix = owner + "_arg_";  // under two names an argument is given twice
    for (std::size_t n = random_.pick(3); n > 0; --n)
      arguments[prefix + std::to_string(n) + (random_.chance(3) ? random_.piece() : "")] = random_.text();
  }

  test::RandomTexts random_;
};

}  // namespace

TEST_CASE("the default options as YAML read back as themselves", "[cli]") {
  const std::string yaml = to_yaml(Options{});
  INFO(yaml);
  CHECK(reload(yaml) == Options{});
  CHECK_THAT(yaml, cxtrain::test::contains("\ntrainer:\n  accelerator: auto\n") &&
                       cxtrain::test::contains("\nmodel:\n  name: digits\n"));
}

TEST_CASE("any options as YAML read back as themselves", "[cli]") {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Options options = RandomOptions(seed).make();
    const std::string yaml = to_yaml(options);
    const Options again = reload(yaml);
    INFO("seed " << seed << "\n" << yaml << "\nread back:\n" << to_yaml(again));
    REQUIRE(again == options);
  }
}

TEST_CASE("what was reloaded replaces what stood there", "[cli]") {
  std::vector<Problem> problems;
  Options options;
  options.plugins = {"old.so"};
  options.trainer.max_epochs = 3;
  options.model = {"gpt", {{"layers", "4"}}};
  apply_settings(read_yaml(to_yaml(Options{}), "config.yaml", problems), options, problems);
  CHECK(options == Options{});
}

TEST_CASE("the hyperparameters of a program's own model are not options", "[cli]") {
  CHECK(reload(to_yaml(Options{}) + "hyperparameters:\n  model.lr: 0.1\n") == Options{});
}

TEST_CASE("the forms of a component", "[cli]") {
  CHECK(reload("model: gpt").model == NamedOptions{"gpt", {}});
  CHECK(reload("model: {name: gpt, layers: 4}").model == NamedOptions{"gpt", {{"layers", "4"}}});
  CHECK(reload("model.layers: 4").model == NamedOptions{"digits", {{"layers", "4"}}});
  CHECK(reload("model: {block: {width: 4}}").model.args ==
        std::map<std::string, std::string>{{"block.width", "4"}});
  CHECK(reload("model: {sizes: [4, 5]}").model.args ==
        std::map<std::string, std::string>{{"sizes", "[4, 5]"}});
  CHECK(reload("trainer: {devices: [0, 2]}").trainer.devices == "[0, 2]");
  CHECK(reload("plugin: [a.so, b.so]").plugins == std::vector<std::string>{"a.so", "b.so"});
  CHECK(reload("plugin: a.so").plugins == std::vector<std::string>{"a.so"});
}

TEST_CASE("the table knows every option once", "[cli]") {
  std::set<std::string> keys;
  for (const OptionEntry& entry : option_table()) {
    INFO(entry.key);
    CHECK(keys.insert(entry.key).second);
    CHECK_FALSE(entry.help.empty());
    CHECK_FALSE(entry.placeholder.empty());
    CHECK(find_option(entry.key) == &entry);
  }
  CHECK(find_option("max_epochs") == find_option("trainer.max_epochs"));
  CHECK(find_option("ddp.max_epochs") == nullptr);
  CHECK(find_component_of("model.layers")->key == "model");
  CHECK(find_component_of("data.batch_size") == nullptr);
  CHECK(find_component_of("model.") == nullptr);
  CHECK(find_component_of("ddp.overlap")->alias_of == "strategy");
  CHECK(canonical_key("max_epochs") == "trainer.max_epochs");
  CHECK(canonical_key("ddp.overlap") == "strategy.overlap");
  CHECK(canonical_key("trainer.strategy.overlap") == "strategy.overlap");
  CHECK(canonical_key("strategy") == "trainer.strategy");
  CHECK(canonical_key("model.layers") == "model.layers");
  CHECK(canonical_key("banana") == "banana");
}

TEST_CASE("components as LightningCLI's files have them", "[cli]") {
  const Options options = reload(
      "model:\n  class_path: gpt\n  init_args:\n    layers: 2\n    block.width: 3\n"
      "optimizer:\n  class_path: adamw\n  init_args: {lr: 0.1}\n");
  CHECK(options.model.name == "gpt");
  CHECK(options.model.args == std::map<std::string, std::string>{{"layers", "2"}, {"block.width", "3"}});
  CHECK(options.optimizer.name == "adamw");
  CHECK(options.optimizer.args.at("lr") == "0.1");
}
