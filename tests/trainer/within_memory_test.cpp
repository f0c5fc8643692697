#include "cxtrain/trainer/within_memory.h"

#include <ATen/ops/empty.h>
#include <sys/resource.h>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/device/resources.h"
#include "support/catch.h"
#include "support/error_text.h"

using namespace cxtrain;
using test::code;
using test::contains;

namespace {

std::string refusal(const std::function<void()>& build) {
  return test::error_of<ConfigError>([&] { build_within_memory("model", "model.hidden=9", build); });
}

}  // namespace

TEST_CASE("what does not fit is refused by what was asked for", "[memory]") {
  const std::function<void()> build = GENERATE(
      as<std::function<void()>>{},
      [] {
        at::empty({1L << 31, 1L << 20});
      },
      [] { throw std::bad_alloc(); },
      [] { std::vector<int>().reserve(std::numeric_limits<std::size_t>::max()); });
  CHECK_THAT(refusal(build), contains(code(MessageCode::out_of_memory)) && contains("model:") &&
                                 contains("model.hidden=9") && !contains("frame #"));
  CHECK_THROWS_AS(build_within_memory("data", "", [] { throw std::bad_alloc(); }), ConfigError);
}

TEST_CASE("memory ends before the machine's does, and is whole again afterwards", "[memory]") {
  rlimit before{}, after{};
  getrlimit(RLIMIT_DATA, &before);
  CHECK_THROWS_AS(build_within_memory("data", "",
                                      [] {
                                        // Never touched: only the limit can end this.
                                        std::vector<std::unique_ptr<char[]>> blocks;
                                        const std::int64_t block = std::int64_t{1} << 30;
                                        for (std::int64_t all = 0; all < 2 * total_memory_bytes();
                                             all += block)
                                          blocks.emplace_back(new char[static_cast<std::size_t>(block)]);
                                      }),
                  ConfigError);
  getrlimit(RLIMIT_DATA, &after);
  CHECK(before.rlim_cur == after.rlim_cur);
}

TEST_CASE("LibTorch's refusals come without its frames, and other errors pass", "[memory]") {
  CHECK_THAT(
      test::error_of([] { build_within_memory("data", "", [] { at::empty({-1}); }); }),
      contains("--data: ") && contains("Trying to create tensor with negative") && !contains("frame #"));
  CHECK_THROWS_AS(build_within_memory("data", "", [] { throw DataError("damaged"); }), DataError);
  bool built = false;
  build_within_memory("data", "", [&] { built = true; });
  CHECK(built);
}

TEST_CASE("parameters and their gradients have to fit", "[memory]") {
  CHECK_NOTHROW(require_memory_for("model.hidden", 1e6));
  CHECK_THAT(test::error_of([] { require_memory_for("model.hidden", 1e18); }),
             contains(code(MessageCode::out_of_memory)) && contains("model.hidden: ") && contains("1e+18") &&
                 contains("7.45e+09 GiB"));
}
