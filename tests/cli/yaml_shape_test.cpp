#include "cxtrain/cli/yaml_config.h"

#include "support/catch.h"
#include "support/error_text.h"

using namespace cxtrain;

namespace {

std::string refusal(const std::string& text) {
  std::vector<Problem> problems;
  check_yaml_shape(text, "c.yaml", problems);
  CHECK(problems.size() <= 1);
  return problems.empty() ? "" : with_code(to_line(problems[0]), problems[0].code);
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
  CHECK_THAT(refusal("trainer: {max_steps: 1}\n---\ntrainer: {max_steps: 2}\n"),
             test::contains(test::code(MessageCode::invalid_file)) && test::contains("line 2") &&
                 test::contains("c.yaml"));
}

TEST_CASE("aliases that follow themselves, or grow beyond measure", "[cli]") {
  CHECK_THAT(refusal("&a {b: *a}\n"), test::contains(test::code(MessageCode::invalid_file)) &&
                                          test::contains("line 1") && test::contains("c.yaml"));
  CHECK_THAT(refusal("\ntrainer: &a\n  x: *a\n"), test::contains(test::code(MessageCode::invalid_file)) &&
                                                      test::contains("line 3") && test::contains("c.yaml"));
  CHECK_THAT(refusal("- &a [*a]\n"), test::contains(test::code(MessageCode::invalid_file)) &&
                                         test::contains("line 1") && test::contains("alias"));
  std::string levels = "a0: &a0 {x: 1, y: 2, z: 3}\n";
  for (int i = 1; i < 20; ++i) {
    const std::string last = std::to_string(i - 1), next = std::to_string(i);
    levels += "a" + next + ": &a" + next + " {x: *a" + last + ", y: *a" + last + ", z: *a" + last + "}\n";
  }
  CHECK_THAT(refusal(levels), test::contains(test::code(MessageCode::invalid_file)) &&
                                  test::contains("line 8") && test::contains("c.yaml") &&
                                  test::contains("20000"));
}

TEST_CASE("nesting without end is refused by its line", "[cli]") {
  for (const char* open : {"[", "{a: ", "- ", "? "}) {
    INFO(open);
    CHECK_THAT(refusal("trainer:\n  " + repeated(open, 2000)),
               test::contains(test::code(MessageCode::invalid_file)) && test::contains("line 2") &&
                   test::contains("c.yaml") && test::contains("32"));
  }
}

TEST_CASE("more values than any configuration has", "[cli]") {
  CHECK_THAT(refusal(repeated("seed: 1\n", 50'000)), test::contains(test::code(MessageCode::invalid_file)));
  CHECK_THAT(refusal("a: [1, 2\n"), test::contains("no valid YAML"));
}
