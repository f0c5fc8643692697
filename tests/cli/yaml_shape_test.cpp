#include "cxtrain/cli/yaml_config.h"

#include "support/catch.h"

using namespace cxtrain;

namespace {

std::string refusal(const std::string& text) {
  std::vector<Problem> problems;
  check_yaml_shape(text, "c.yaml", problems);
  CHECK(problems.size() <= 1);
  return problems.empty() ? ""
                          : problems[0].option + ": " + problems[0].message + " (" + problems[0].hint + ")";
}

std::string repeated(const std::string& part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

}  // namespace

TEST_CASE("a configuration is one document of some depth", "[cli]") {
  CHECK(refusal("").empty());
  CHECK(refusal("# nothing\n").empty());
  CHECK(refusal("---\ntrainer: {max_epochs: 1}\n").empty());
  CHECK(refusal("trainer: {devices: [0, 2]}\nmodel: {a: {b: {c: 1}}}\n").empty());
  CHECK(refusal("base: &a {x: 1}\nother: *a\n").empty());
}

TEST_CASE("a second document is refused, not forgotten", "[cli]") {
  CHECK(refusal("trainer: {max_steps: 1}\n---\ntrainer: {max_steps: 2}\n") ==
        "c.yaml line 2: a second document begins here (put all options into one, or into several files)");
}

TEST_CASE("aliases that follow themselves, or grow beyond measure", "[cli]") {
  CHECK(refusal("&a {b: *a}\n") ==
        "c.yaml line 1: an alias refers to what it is part of (write the value out)");
  CHECK_THAT(refusal("\ntrainer: &a\n  x: *a\n"), test::contains("c.yaml line 3: an alias refers to"));
  CHECK_THAT(refusal("- &a [*a]\n"), test::contains("an alias refers to"));
  std::string levels = "a0: &a0 {x: 1, y: 2, z: 3}\n";
  for (int i = 1; i < 20; ++i) {
    const std::string last = std::to_string(i - 1), next = std::to_string(i);
    levels += "a" + next + ": &a" + next + " {x: *a" + last + ", y: *a" + last + ", z: *a" + last + "}\n";
  }
  CHECK_THAT(refusal(levels), test::contains("c.yaml line 8: by here there are more than 20000 values"));
}

TEST_CASE("nesting without end is refused by its line", "[cli]") {
  for (const char* open : {"[", "{a: ", "- ", "? "}) {
    INFO(open);
    CHECK_THAT(refusal("trainer:\n  " + repeated(open, 2000)),
               test::contains("c.yaml line 2: is nested deeper than 32 levels"));
  }
}

TEST_CASE("more values than any configuration has", "[cli]") {
  CHECK_THAT(refusal(repeated("seed: 1\n", 50'000)), test::contains("check which file it is"));
  CHECK_THAT(refusal("a: [1, 2\n"), test::contains("no valid YAML"));
}
