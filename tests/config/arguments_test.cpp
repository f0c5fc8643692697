#include "cxtrain/config/fields.h"

#include <stdexcept>
#include "support/catch.h"
#include "support/error_text.h"

using namespace cxtrain;

namespace {

struct Network {
  std::int64_t layers = 4;
  double dropout = 0.1;
  bool tied = true;
  std::string net = "mlp";

  void fields(auto&& field) {
    field("layers", layers, "blocks");
    field("dropout", dropout, "share");
    field("tied", tied, "one matrix");
    field("net", net, "which", one_of("mlp", "cnn"));
  }
};
const std::vector<ArgumentSpec> kSpecs = argument_specs<Network>();

struct Limited {
  double lr = 0.1, eps = 1, share = 0, free = 1;
  std::int64_t bytes = 1;
  std::vector<std::int64_t> steps{3, 5};

  void fields(auto&& field) {
    field("lr", lr, "", Range::at_least(0));
    field("eps", eps, "", Range::above(0));
    field("share", share, "", Range::below(0, 1));
    field("bytes", bytes, "", Range::between(1, 10));
    field("free", free, "");
    field("steps", steps, "", Range::at_least(1));
  }
};

struct Overlapping {
  std::optional<bool> overlap;

  void fields(auto&& field) { field("overlap", overlap, "where it helps"); }
};

}  // namespace

TEST_CASE("arguments: what was given, and defaults", "[config]") {
  std::vector<Problem> problems;
  const Arguments arguments(kSpecs, {{"layers", "6"}, {"tied", "no"}}, "model.", problems);
  CHECK(problems.empty());
  CHECK(arguments.text("layers") == "6");
  CHECK(arguments.text("dropout") == "0.1");
  CHECK(arguments.text("tied") == "no");
  CHECK(arguments.text("net") == "mlp");
  CHECK(arguments.given("layers"));
  CHECK_FALSE(arguments.given("dropout"));
  CHECK(arguments.values() == std::map<std::string, std::string>{
                                  {"layers", "6"}, {"dropout", "0.1"}, {"tied", "no"}, {"net", "mlp"}});
}

TEST_CASE("arguments: every problem at once, and the defaults stay", "[config]") {
  std::vector<Problem> problems;
  const Arguments arguments(
      kSpecs, {{"layer", "6"}, {"layers", "six"}, {"dropout", "x"}, {"net", "cmn"}, {"tied", "maybe"}},
      "model.", problems);
  REQUIRE(problems.size() == 5);
  CHECK(problems[0].option == "model.dropout");
  CHECK_THAT(problems[0].message, test::contains("'x'"));
  CHECK(problems[1].option == "model.layer");
  CHECK_THAT(problems[1].hint, test::contains("--model.layers"));
  CHECK_THAT(problems[2].message, test::contains("'six'"));
  CHECK_THAT(problems[3].message, test::contains("mlp, cnn") && test::contains("'cmn'"));
  CHECK_THAT(problems[4].message, test::contains("'maybe'"));
  CHECK(arguments.text("layers") == "4");
  CHECK_FALSE(arguments.given("layers"));
}

TEST_CASE("arguments: a name far from all lists what there is", "[config]") {
  std::vector<Problem> problems;
  Arguments(kSpecs, {{"banana", "1"}}, "model.", problems);
  Arguments({}, {{"banana", "1"}}, "data.", problems);
  REQUIRE(problems.size() == 2);
  CHECK_THAT(problems[0].hint, test::contains("layers, dropout, tied, net"));
  CHECK_THAT(problems[1].hint, test::contains("no arguments"));
}

TEST_CASE("arguments: asking for what the specs lack is a programming error", "[config]") {
  std::vector<Problem> problems;
  const Arguments arguments(kSpecs, {}, "model.", problems);
  CHECK_THROWS_AS(arguments.text("width"), std::logic_error);
}

TEST_CASE("arguments: numbers outside of their range", "[config]") {
  const std::vector<ArgumentSpec> specs = argument_specs<Limited>();
  const auto refusal = [&](const char* name, const char* value) {
    std::vector<Problem> problems;
    Arguments(specs, {{name, value}}, "", problems);
    return problems.empty() ? std::string() : with_code(problems[0].message, problems[0].code);
  };
  CHECK_THAT(refusal("lr", "-1e-9"),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("'-1e-09'"));
  for (const char* value : {"nan", "-nan", "inf", "-inf"}) {
    CHECK_THAT(refusal("lr", value), test::contains(test::code(MessageCode::out_of_range)) &&
                                         test::contains("'" + std::string(value) + "'"));
    CHECK_THAT(refusal("free", value), test::contains(test::code(MessageCode::out_of_range)) &&
                                           test::contains("'" + std::string(value) + "'"));
  }
  CHECK(refusal("lr", "0").empty());
  CHECK_THAT(refusal("eps", "0"),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("'0'"));
  CHECK_THAT(refusal("share", "1"),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("'1'"));
  CHECK(refusal("share", "0").empty());
  CHECK_THAT(refusal("bytes", "0"),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("'0'"));
  CHECK_THAT(refusal("bytes", "9223372036854775807"), test::contains(test::code(MessageCode::out_of_range)) &&
                                                          test::contains("'9223372036854775807'") &&
                                                          test::contains("10"));
  CHECK(refusal("free", "-1e300").empty());
  CHECK(refusal("steps", "1, 2,3").empty());
  CHECK_THAT(refusal("steps", "1,0"),
             test::contains(test::code(MessageCode::out_of_range)) && test::contains("'0'"));
  for (const char* value : {"1,,2", "1,", "x", "1 2"})
    CHECK_THAT(refusal("steps", value), test::contains(test::code(MessageCode::invalid_value)) &&
                                            test::contains("'" + std::string(value) + "'"));
  std::vector<Problem> problems;
  CHECK(read_args<Limited>(Arguments(specs, {}, "", problems)).steps == std::vector<std::int64_t>{3, 5});
}

TEST_CASE("arguments: names that others have may have been meant", "[config]") {
  std::vector<Problem> problems;
  const std::vector<std::string> others{"path", "batch_size"};
  Arguments({}, {{"pth", "x"}, {"banana", "1"}}, "data.", problems, others);
  REQUIRE(problems.size() == 2);
  CHECK_THAT(problems[0].hint, test::contains("path, batch_size"));
  CHECK_THAT(problems[1].hint, test::contains("--data.path"));
}

TEST_CASE("arguments: a boolean that may be left to the component", "[config]") {
  const std::vector<ArgumentSpec> specs = argument_specs<Overlapping>();
  const auto read = [&](const std::map<std::string, std::string>& given) {
    std::vector<Problem> problems;
    const Arguments arguments(specs, given, "strategy.", problems);
    CHECK(problems.empty());
    return read_args<Overlapping>(arguments).overlap;
  };
  CHECK(read({}) == std::nullopt);
  CHECK(read({{"overlap", "auto"}}) == std::nullopt);
  CHECK(read({{"overlap", " null "}}) == std::nullopt);
  CHECK(read({{"overlap", "on"}}) == true);
  CHECK(read({{"overlap", "false"}}) == false);
  std::vector<Problem> problems;
  const Arguments refused(specs, {{"overlap", "sometimes"}}, "strategy.", problems);
  REQUIRE(problems.size() == 1);
  CHECK_THAT(problems[0].message, test::contains("true, false, auto") && test::contains("'sometimes'"));
}
