#include "cxtrain/base/text.h"

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("what printf would write is a text of any length", "[base]") {
  CHECK(formatted("%d of %s: %.1f %%", 3, "four", 75.0) == "3 of four: 75.0 %");
  CHECK(formatted("%s", "").empty());
  CHECK(formatted("%300d", 7) == std::string(299, ' ') + "7");
}

TEST_CASE("columns of a table begin or end at one place, and no line ends with blanks", "[base]") {
  const std::vector<std::vector<std::string>> rows{{"phase", "ms", "rank"}, {"wait", "12.5", ""}};
  CHECK(aligned(
            rows, [](std::size_t column) { return column == 1; }, "  ") ==
        "  phase    ms  rank\n"
        "  wait   12.5\n");
  CHECK(aligned(rows, [](std::size_t) { return false; }) ==
        "phase  ms    rank\n"
        "wait   12.5\n");
}

}  // namespace
}  // namespace cxtrain
