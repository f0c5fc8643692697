#include "cxtrain/base/error.h"

#include <algorithm>
#include <stdexcept>

#include "support/catch.h"

using namespace cxtrain;

TEST_CASE("texts that come from files cannot steer a terminal") {
  CHECK(printable("two lines\nand a\ttab") == "two lines\nand a\ttab");
  CHECK(printable("Größe 日本 🙂") == "Größe 日本 🙂");
  CHECK(printable("\x1b]0;title\a\x1b[2J\r\x7f") == "?]0;title??[2J??");
  CHECK(printable("\xc2\x9b"
                  "31m \xc2\x80\xc2\x9f\xc2\xa0") == "?31m ??\xc2\xa0");  // the control characters of 8 bits
  CHECK(printable("\x9b"
                  "31m \xff \xc3") == "?31m ? ?");  // no UTF-8
  CHECK(printable(std::string_view("a\0b", 3)) == "a?b");
}

TEST_CASE("an exception of the standard library, or of another type, is named by its class", "[base]") {
  CHECK(message_of(std::out_of_range("map::at")) == "std::out_of_range: map::at");
  try {
    throw 42;
  } catch (...) {
    CHECK(message_of_other_exception().starts_with("an exception of type int was thrown"));
  }
}

TEST_CASE("a long text keeps its beginning and its end", "[base]") {
  CHECK(shortened("short") == "short");
  const std::string text = shortened("begin " + std::string(9000, 'x') + " end");
  CHECK(text.size() == 4000);
  CHECK(text.starts_with("begin x"));
  CHECK(text.ends_with("x end"));
}

TEST_CASE("twenty problems are told, and how many more there are", "[base]") {
  std::vector<Problem> problems(500'000, {"--a", "there is no such option", "did you mean --b?"});
  const std::string text = ConfigError(problems).what();
  CHECK(text.starts_with("500000 problems\n  --a: there is no such option (did you mean --b?)"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 21);
  CHECK(text.ends_with("\n  and 499980 more"));
  CHECK(std::string(ConfigError("trainer.max_epochs", "is wrong").what()) == "--max_epochs: is wrong");
  CHECK(to_line({"CUDA_VISIBLE_DEVICES", "is wrong", "unset it"}) ==
        "CUDA_VISIBLE_DEVICES: is wrong (unset it)");
  problems.resize(20);
  CHECK(first_of(problems).size() == 20);
  CHECK(first_of({}).empty());
}

TEST_CASE("no list of problems is longer than a screen or two, whatever was typed", "[base]") {
  const std::string much(100'000, 'x');
  const std::vector<Problem> problems(30, {much, much, much});
  CHECK(std::string(ConfigError(problems).what()).size() < 4096);
  CHECK(std::string(ConfigError(much, much, much).what()).size() < 4096);
  std::string all;
  for (const Problem& problem : first_of(problems)) all += to_line(problem);
  CHECK(all.size() < 4096);
}
