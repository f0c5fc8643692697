#include "cxtrain/config/fields.h"

#include <limits>
#include "support/catch.h"

using namespace cxtrain;

namespace {

struct Everything {
  bool on = true;
  std::int64_t count = 3;
  std::size_t size = 7;
  double rate = 0.5;
  std::string name = "x";
  MonitorMode mode = MonitorMode::max;
  std::optional<bool> maybe;
  std::vector<std::int64_t> steps{1, 2};
  std::chrono::duration<double> time{90};

  void fields(auto&& field) {
    field("on", on, "a switch");
    field("count", count, "a number", Range::at_least(1));
    field("size", size, "a size");
    field("rate", rate, "a share", Range::between(0, 1));
    field("name", name, "a word", one_of("x", "y"), kRequired);
    field("mode", mode, "a choice");
    field("maybe", maybe, "a switch that may be left alone");
    field("steps", steps, "a list");
    field("time", time, "a time");
  }
};

struct Absent {
  std::optional<double> rate;
  std::optional<std::int64_t> count = 4;
  std::uint32_t small = 1;
  std::vector<std::int64_t> sizes;

  void fields(auto&& field) {
    field("rate", rate, "a share", Range::between(0, 1));
    field("count", count, "a number", Range::at_least(1));
    field("small", small, "a number of 32 bits");
    field("sizes", sizes, "a list");
  }
};

using Given = std::map<std::string, std::string>;

Everything read_from(const Given& given) {
  std::vector<Problem> problems;
  const Arguments arguments(argument_specs<Everything>(), given, "", problems);
  REQUIRE(problems.empty());
  return read_args<Everything>(arguments);
}

}  // namespace

TEST_CASE("the specs of fields have their types, defaults and limits", "[config]") {
  struct Expected {
    const char* name;
    std::string type;
    const char* text;
  };
  const std::vector<ArgumentSpec> specs = argument_specs<Everything>();
  const std::vector<Expected> expected{{"on", "boolean", "true"},
                                       {"count", "integer", "3"},
                                       {"size", "integer", "7"},
                                       {"rate", "real", "0.5"},
                                       {"name", "text", "x"},
                                       {"mode", "text", "max"},
                                       {"maybe", "optional_boolean", "auto"},
                                       {"steps", "integers", "1,2"},
                                       {"time", "duration", "90"}};
  REQUIRE(specs.size() == expected.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    INFO(expected[i].name);
    CHECK(specs[i].name == expected[i].name);
    CHECK(specs[i].type == expected[i].type);
    CHECK(specs[i].default_value == expected[i].text);
  }
  CHECK(specs[1].range.least == 1);
  CHECK(specs[3].range.most == 1);
  CHECK(specs[4].choices == std::vector<std::string>{"x", "y"});
  CHECK(specs[4].required);
  CHECK_FALSE(specs[0].required);
  CHECK(specs[5].choices == std::vector<std::string>{"min", "max"});
}

TEST_CASE("fields are read from arguments, and the rest keeps its defaults", "[config]") {
  const Everything read = read_from({{"on", "false"},
                                     {"count", "4"},
                                     {"size", "8"},
                                     {"rate", "0.25"},
                                     {"name", "y"},
                                     {"mode", "min"},
                                     {"maybe", "true"},
                                     {"steps", "3"},
                                     {"time", "00:00:30:00"}});
  CHECK_FALSE(read.on);
  CHECK(read.count == 4);
  CHECK(read.size == 8);
  CHECK(read.rate == 0.25);
  CHECK(read.name == "y");
  CHECK(read.mode == MonitorMode::min);
  CHECK(read.maybe == true);
  CHECK(read.steps == std::vector<std::int64_t>{3});
  CHECK(read.time == std::chrono::minutes(30));
  const Everything defaults = read_from({{"name", "x"}, {"time", "1.5"}});
  CHECK(defaults.count == 3);
  CHECK(defaults.maybe == std::nullopt);
  CHECK(defaults.time.count() == 1.5);
}

TEST_CASE("only what the user gave is assigned", "[config]") {
  Everything changed;
  changed.count = 9;
  std::vector<Problem> problems;
  assign_given(Arguments(argument_specs<Everything>(), {{"name", "y"}, {"rate", "1"}}, "", problems),
               changed);
  CHECK(changed.count == 9);
  CHECK(changed.name == "y");
  CHECK(changed.rate == 1);
}

TEST_CASE("values outside of a field's limits are refused by name", "[config]") {
  struct Row {
    std::string name, value;
    MessageCode code;
  };
  for (const auto& [name, value, code] :
       {Row{"count", "0", MessageCode::out_of_range}, Row{"rate", "2", MessageCode::out_of_range},
        Row{"name", "z", MessageCode::unknown_name}, Row{"mode", "most", MessageCode::unknown_name},
        Row{"time", "soon", MessageCode::invalid_value}, Row{"time", "-1", MessageCode::invalid_value}}) {
    std::vector<Problem> problems;
    Given given{{"name", "x"}};
    given[name] = value;
    Arguments(argument_specs<Everything>(), given, "model.", problems);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].option == "model." + name);
    CHECK(problems[0].code == code);
  }
  std::vector<Problem> problems;
  Arguments(argument_specs<Everything>(), {}, "model.", problems);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].option == "model.name");
  CHECK(problems[0].code == MessageCode::missing_value);
}

TEST_CASE("a number may be absent, which is auto") {
  const std::vector<ArgumentSpec> specs = argument_specs<Absent>();
  CHECK(specs[0].default_value == "auto");
  CHECK(specs[0].type == "optional_real");
  CHECK(specs[1].type == "optional_integer");
  CHECK(specs[1].shown == "N|auto");
  std::vector<Problem> problems;
  const auto read = [&](const Given& given) {
    problems.clear();
    return read_args<Absent>(Arguments(specs, given, "", problems));
  };
  CHECK_FALSE(read({}).rate);
  CHECK(read({}).count == 4);
  CHECK(read({{"rate", "0.5"}, {"count", "auto"}}).rate == 0.5);
  CHECK_FALSE(read({{"count", "auto"}}).count);
  CHECK(problems.empty());
  CHECK(read({{"small", "4294967295"}}).small == 4294967295U);
  CHECK(read({{"sizes", "[7, 8]"}}).sizes == std::vector<std::int64_t>{7, 8});  // as YAML has a list
  CHECK(read({{"sizes", "[]"}}).sizes.empty());
  for (const Given& given :
       {Given{{"rate", "2"}}, Given{{"count", "0"}}, Given{{"rate", "some"}}, Given{{"small", "4294967296"}},
        Given{{"small", "-1"}}, Given{{"sizes", "[7, 8"}}, Given{{"sizes", "[7,]"}}}) {
    read(given);
    CHECK(problems.size() == 1);
  }
  problems.clear();
  Absent wrong;
  wrong.rate = 2;
  wrong.count.reset();
  check_fields(wrong, "", problems);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].option == "rate");
}

TEST_CASE("a struct that a program filled is checked by its fields", "[config]") {
  std::vector<Problem> problems;
  check_fields(Everything{}, "model.", problems);
  CHECK(problems.empty());
  Everything wrong;
  wrong.count = 0;
  wrong.rate = std::numeric_limits<double>::quiet_NaN();
  wrong.name = "z";
  check_fields(wrong, "model.", problems);
  REQUIRE(problems.size() == 3);
  CHECK(problems[0].option == "model.count");
  CHECK(problems[0].code == MessageCode::out_of_range);
  CHECK(problems[1].option == "model.rate");
  CHECK(problems[1].code == MessageCode::out_of_range);
  CHECK(problems[2].option == "model.name");
  CHECK(problems[2].code == MessageCode::unknown_name);
  CHECK_THROWS_AS(require_fields(wrong), ConfigError);
  CHECK_NOTHROW(require_fields(Everything{}));
  Everything without_required;
  without_required.name.clear();
  problems.clear();
  check_fields(without_required, "model.", problems);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].code == MessageCode::missing_value);
}
