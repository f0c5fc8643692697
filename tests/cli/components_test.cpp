#include "cxtrain/cli/components.h"

#include "support/catch.h"
#include "support/error_text.h"

using namespace cxtrain;

namespace {

class NeverTrained : public Module {
 public:
  StepOutput training_step(const Batch&, std::int64_t) override { return {}; }
  Optimizers configure_optimizers() override { return {}; }
};

class WithWidth : public NeverTrained {
 public:
  struct Args {
    std::int64_t width = 3;

    void fields(auto&& field) { field("width", width, "units"); }
  };
  explicit WithWidth(const Args&) {}
};

class WithWeights : public NeverTrained {
 public:
  struct Args {
    std::string weights;

    void fields(auto&& field) { field("weights", weights, "of classes"); }
  };
  explicit WithWeights(const Args&) {}
};

/// Has arguments of the names that data modules in Lightning have.
class WithPath : public DataModule {
 public:
  struct Args {
    std::string path = "here";
    std::int64_t batch_size = 8, classes = 2;

    void fields(auto&& field) {
      field("path", path, "folder");
      field("batch_size", batch_size, "samples", Range::at_least(1));
      field("classes", classes, "classes of the data");
    }
  };
  explicit WithPath(const Args& its_args) : args(its_args) {}
  Loaders train_dataloader() override { return {}; }
  Args args;
};

void add_model(Registry& registry, const char* name) { registry.add<WithWidth>(name, "a model"); }

}  // namespace

TEST_CASE("a program that brings one model trains it, unless another one is named", "[cli]") {
  Registry registry;
  Options options;
  std::vector<Problem> problems;
  choose_model(registry, false, options, problems);
  CHECK(options.model.name == "digits");
  add_model(registry, "mine");
  choose_model(registry, true, options, problems);
  CHECK(options.model.name == "digits");
  choose_model(registry, false, options, problems);
  CHECK(options.model.name == "mine");
  CHECK(problems.empty());
}

TEST_CASE("a program that brings several models trains none of them unasked, and no built-in one", "[cli]") {
  Registry registry;
  add_model(registry, "mine");
  add_model(registry, "another");
  Options options;
  std::vector<Problem> problems;
  choose_model(registry, false, options, problems);
  REQUIRE(problems.size() == 1);
  CHECK_THAT(to_line(problems[0]), test::contains("--model:") && test::contains("another, mine"));
  problems.clear();
  choose_model(registry, true, options, problems);
  CHECK(problems.empty());
}

TEST_CASE("the kept configuration has every argument of the strategy that it names", "[cli]") {
  Options options;
  options.trainer.strategy = "mine";
  options.strategy = {.args = {}, .ddp_args = {{"overlap", "true"}, {"buckets", "3"}}};
  std::vector<Problem> problems;
  Components components;
  components.strategy =
      Arguments({field::describe("overlap", std::optional<bool>(), ""), field::describe("depth", 2, "")},
                {{"overlap", "true"}}, "strategy.", problems);
  CHECK(problems.empty());
  Options kept = with_all_arguments(options, components);
  CHECK(kept.strategy.args == std::map<std::string, std::string>{{"depth", "2"}, {"overlap", "true"}});
  CHECK(kept.strategy.ddp_args == std::map<std::string, std::string>{{"buckets", "3"}});
  components.strategy = {};  // the plan is to choose one
  CHECK(with_all_arguments(options, components).strategy == options.strategy);
}

TEST_CASE("the kept configuration has every argument of what it names", "[cli]") {
  Registry registry;
  add_model(registry, "mine");
  Options options;
  options.model.name = "mine";
  options.optimizer = {"sgd", {{"lr", "0.5"}}};
  std::vector<Problem> problems;
  const Components components = load_components(registry, options, problems);
  CHECK(problems.empty());
  const Options complete = with_all_arguments(options, components);
  CHECK(complete.model.args == std::map<std::string, std::string>{{"width", "3"}});
  CHECK(complete.optimizer.args.at("lr") == "0.5");
  CHECK(complete.optimizer.args.at("momentum") == "0");
  CHECK(complete.lr_scheduler.args.empty());
  Components again = load_components(registry, complete, problems);
  CHECK(problems.empty());
  CHECK(with_all_arguments(complete, again) == complete);
}

TEST_CASE("an option of all data modules gives an argument of its name the value", "[cli]") {
  Registry registry;
  registry.add<WithPath>("folder", "data");
  const auto made = [&](const DataOptions& data) {
    Options options;
    options.data = data;
    std::vector<Problem> problems;
    const Components components = load_components(registry, options, problems);
    CHECK(problems.empty());
    CHECK(with_all_arguments(options, components).data.args ==
          std::map<std::string, std::string>{{"classes", data.args.empty() ? "2" : "5"}});
    const auto module = registry.make<DataModule>("folder", components.data);
    return dynamic_cast<const WithPath&>(*module).args;
  };
  const WithPath::Args defaults = made({.name = "folder", .path = "", .args = {}});
  CHECK(defaults.path == "here");
  CHECK(defaults.batch_size == 8);
  const WithPath::Args given =
      made({.name = "folder", .path = "there", .batch_size = 32, .args = {{"classes", "5"}}});
  CHECK(given.path == "there");
  CHECK(given.batch_size == 32);
  CHECK(given.classes == 5);
}

TEST_CASE("a model with an argument that is an option of all models is refused", "[cli]") {
  Registry registry;
  registry.add<WithWeights>("mine", "a model");
  Options options;
  options.model.name = "mine";
  std::vector<Problem> problems;
  load_components(registry, options, problems);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].option == "model.weights");
  CHECK(problems[0].code == MessageCode::conflicting_options);
}
