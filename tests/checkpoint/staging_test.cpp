#include "cxtrain/checkpoint/staging.h"

#include <ATen/Functions.h>

#include <map>

#include "support/catch.h"

namespace cxtrain {
namespace {

/// Tensors of several dtypes and layouts, larger than a round and smaller, and empty ones.
std::vector<PlannedFile> some_files() {
  at::manual_seed(1);
  return {
      {"a", {{"large", at::rand({700, 1000})}, {"transposed", at::rand({300, 500}).t()}}, {{"format", "pt"}}},
      {"b",
       {{"double", at::rand({3}, at::kDouble)},
        {"none", at::zeros({0, 4})},
        {"flags", at::rand({333}).gt(0.5)},
        {"halves", at::rand({999, 601}).to(at::kHalf)}},
       {}},
      {"c", {}, {{"empty", "file"}}}};
}

/// The content of each file, put together from all rounds; `rounds`: their number.
std::map<std::string, std::string> staged(std::size_t most, int& rounds) {
  Staging staging;
  staging.begin(some_files(), most);
  std::map<std::string, std::string> content;
  for (rounds = 0; rounds == 0 || staging.has_next(); ++rounds) {
    staging.next();
    std::size_t bytes = 0;
    for (const Staging::File& file : staging.files()) {
      content[file.name] += file.bytes;
      bytes += file.bytes.size();
    }
    if (most > 0) CHECK(bytes <= most);
  }
  CHECK_FALSE(staging.has_next());
  return content;
}

TEST_CASE("a copy in rounds of limited memory has the bytes of a copy at once", "[checkpoint]") {
  int rounds = 0;
  const auto whole = staged(0, rounds);
  CHECK(rounds == 1);
  REQUIRE(whole.size() == 3);
  const std::size_t most =
      GENERATE(std::size_t{1} << 20, (std::size_t{1} << 20) + 37, std::size_t{3'000'000});
  CHECK(staged(most, rounds) == whole);
  CHECK(rounds > 1);
  CHECK(staged(std::size_t{1} << 30, rounds) == whole);
  CHECK(rounds == 1);
}

TEST_CASE("a copy lets go of the tensors after its last round", "[checkpoint]") {
  Staging staging;
  const at::Tensor tensor = at::rand({1000});
  const auto before = tensor.use_count();
  staging.begin({{{"a", {{"t", tensor}}, {}}}}, 0);
  CHECK(tensor.use_count() == before + 1);
  staging.next();
  CHECK(tensor.use_count() == before);
}

}  // namespace
}  // namespace cxtrain
