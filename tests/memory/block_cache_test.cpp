#include "cxtrain/memory/block_cache.h"

#include <cstring>
#include <random>
#include <vector>

#include "support/catch.h"

namespace cxtrain {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST_CASE("a freed block goes to the next of its size, the youngest first") {
  BlockCache cache;
  const auto a = cache.take(3 * kMiB), b = cache.take(3 * kMiB);
  CHECK(a.data != b.data);
  cache.give(a);
  cache.give(b);
  CHECK(cache.cached_bytes() == 6 * kMiB);
  const auto again = cache.take(3 * kMiB - 5);
  CHECK(again.data == b.data);
  cache.give(again);
}

TEST_CASE("a block that is much too large is not given out") {
  BlockCache cache;
  const auto large = cache.take(64 * kMiB);
  cache.give(large);
  const auto small = cache.take(2 * kMiB);
  CHECK(small.data != large.data);
  CHECK(small.bytes < 3 * kMiB);
  cache.give(small);
}

TEST_CASE("whatever is asked for, live and cached blocks stay within the peak of live ones and a tenth") {
  BlockCache cache;
  std::mt19937 random(5);
  std::vector<BlockCache::Block> live;
  std::size_t peak = 0;
  for (int i = 0; i < 3000; ++i) {
    if (live.size() < 3 || random() % 2 == 0) {
      live.push_back(cache.take((random() % 40 + 1) * kMiB));
      std::memset(live.back().data, i, 64);
    } else {
      const std::size_t victim = random() % live.size();
      cache.give(live[victim]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    peak = std::max(peak, cache.live_bytes());
    REQUIRE(cache.live_bytes() + cache.cached_bytes() <= peak + peak / 10);
  }
  for (const auto& block : live) cache.give(block);
}

TEST_CASE("blocks in use never overlap") {
  BlockCache cache;
  for (int round = 0; round < 3; ++round) {
    std::vector<BlockCache::Block> blocks;
    for (int i = 0; i < 20; ++i) {
      blocks.push_back(cache.take(kMiB + static_cast<std::size_t>(i) * 5000));
      std::memset(blocks.back().data, i, blocks.back().bytes);
    }
    for (int i = 0; i < 20; ++i) {
      const auto* bytes = static_cast<const unsigned char*>(blocks[static_cast<std::size_t>(i)].data);
      CHECK(bytes[0] == i);
      CHECK(bytes[blocks[static_cast<std::size_t>(i)].bytes - 1] == i);
    }
    for (const auto& block : blocks) cache.give(block);
  }
}

}  // namespace
}  // namespace cxtrain
