#include "cxtrain/cli/components.h"

#include "support/catch.h"

using namespace cxtrain;

namespace {

void add_model(Registry& registry, const char* name) {
  registry.add<Module>(name, "a model", {{"width", ArgumentSpec::Type::integer, "3", "units", {}}},
                       [](const Arguments&) { return nullptr; });
}

}  // namespace

TEST_CASE("a program that brings one model trains it, unless another one is named", "[cli]") {
  Registry registry;
  Options options;
  choose_model(registry, false, options);
  CHECK(options.model.name == "digits");
  add_model(registry, "mine");
  choose_model(registry, true, options);
  CHECK(options.model.name == "digits");
  choose_model(registry, false, options);
  CHECK(options.model.name == "mine");
  add_model(registry, "another");
  options.model.name = "digits";
  choose_model(registry, false, options);
  CHECK(options.model.name == "digits");
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
