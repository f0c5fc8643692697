#include "cxtrain/checkpoint/name_map.h"

#include "cxtrain/checkpoint/checkpoint_error.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

TEST_CASE("a name map replaces prefixes by its first rule that fits") {
  struct Row {
    std::string map, name, result;
  };
  const std::vector<Row> rows{
      {"", "a.b", "a.b"},          {"a.=", "a.b", "b"},
      {"a.=", "ba.b", "ba.b"},     {"a=c", "a.b", "c.b"},
      {"=net.", "a.b", "net.a.b"}, {"a.x.=y.,a.=", "a.x.b", "y.b"},
      {"a.x.=y.,a.=", "a.b", "b"}, {"a.=b.,b.=c.", "a.x", "b.x"},
      {"a.=,=net.", "a.x", "x"},   {"a.=,=net.", "b.x", "net.b.x"},
      {"a.=", "a.", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.map, row.name);
    CHECK(NameMap::parse(row.map)(row.name) == row.result);
  }
  CHECK(NameMap({{"a", "b"}})("ac") == "bc");
}

TEST_CASE("a name map that cannot be meant is refused") {
  CHECK_THAT(test::error_of([&] { NameMap::parse("model."); }),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("'model.'") &&
                 test::contains("FROM=TO"));
  CHECK_THAT(test::error_of([&] { NameMap::parse("a=b=c"); }),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("'a=b=c'"));
  CHECK_THAT(test::error_of([&] { NameMap::parse("a=b,,c=d"); }),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("''"));
  CHECK_THAT(test::error_of([&] { NameMap::parse("a.=x,a.b.=y"); }),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("'a.b.=y'"));
  CHECK_THROWS_AS(NameMap::parse("=x,a=y"), CheckpointError);
}

}  // namespace
}  // namespace cxtrain
