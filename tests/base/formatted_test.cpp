#include "cxtrain/base/formatted.h"

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("what printf would write is a text of any length", "[base]") {
  CHECK(formatted("%d of %s: %.1f %%", 3, "four", 75.0) == "3 of four: 75.0 %");
  CHECK(formatted("%s", "").empty());
  CHECK(formatted("%300d", 7) == std::string(299, ' ') + "7");
}

}  // namespace
}  // namespace cxtrain
