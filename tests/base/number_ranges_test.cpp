#include "cxtrain/base/number_ranges.h"

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("numbers are listed as taskset lists cores", "[base]") {
  struct Row {
    std::vector<int> numbers;
    const char* text;
  };
  const Row row = GENERATE(values<Row>({{{}, ""},
                                        {{3}, "3"},
                                        {{0, 1, 2, 3}, "0-3"},
                                        {{0, 2, 3, 4, 8}, "0,2-4,8"},
                                        {{1000, 1001}, "1000-1001"}}));
  CHECK(format_ranges(row.numbers) == row.text);
  CHECK(parse_ranges(row.text) == row.numbers);
}

TEST_CASE("what is no list of ranges is left out", "[base]") {
  CHECK(parse_ranges("x,2").size() == 1);
  CHECK(parse_ranges("3-1").empty());
  CHECK(parse_ranges("0-99999999999").empty());
}

}  // namespace
}  // namespace cxtrain
