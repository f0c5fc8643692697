#include "cxtrain/device/memory.h"

#include <cstring>
#include <memory>

#include "support/catch.h"

using namespace cxtrain;

TEST_CASE("peak memory grows with what was touched, and stays", "[device]") {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  const std::int64_t before = peak_resident_bytes();
  CHECK(before > 0);
  {
    const auto block = std::make_unique_for_overwrite<char[]>(kBytes);
    std::memset(block.get(), 1, kBytes);
  }
  CHECK(peak_resident_bytes() > static_cast<std::int64_t>(kBytes));
}
