#include "cxtrain/base/stream_copy.h"

#include <random>
#include <string>

#include "support/catch.h"

using namespace cxtrain;

TEST_CASE("a streamed copy is a copy, wherever it begins and ends", "[stream_copy]") {
  std::mt19937 random(7);
  std::string source(1000, '\0');
  for (char& byte : source) byte = static_cast<char>(random());
  for (std::size_t from = 0; from < 70; from += 3) {
    for (std::size_t to = 0; to < 70; ++to) {
      const std::size_t bytes = random() % 800;
      std::string target(1000, '!');
      stream_copy(target.data() + to, source.data() + from, bytes);
      std::string expected(1000, '!');
      expected.replace(to, bytes, source, from, bytes);
      REQUIRE(target == expected);
    }
  }
}
