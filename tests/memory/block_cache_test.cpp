#include "cxtrain/memory/block_cache.h"

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "support/catch.h"

namespace cxtrain {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST_CASE("a freed block goes to the next of its size, the youngest first") {
  BlockCache cache;
  void* const a = cache.take(3 * kMiB);
  void* const b = cache.take(3 * kMiB);
  CHECK(a != b);
  CHECK(cache.give(a));
  CHECK(cache.give(b));
  CHECK(cache.cached_bytes() == 6 * kMiB);
  CHECK(cache.take(3 * kMiB - 5) == b);
  CHECK(cache.give(b));
}

TEST_CASE("a cleared cache has neither free blocks nor room for those of its past") {
  BlockCache cache;
  for (void* block : {cache.take(30 * kMiB), cache.take(20 * kMiB)}) cache.give(block);
  cache.clear();
  CHECK(cache.cached_bytes() == 0);
  void* const live = cache.take(10 * kMiB);
  for (int i = 0; i < 5; ++i) cache.give(cache.take((4 + static_cast<std::size_t>(i)) * kMiB));
  CHECK(cache.live_bytes() + cache.cached_bytes() <= 27 * kMiB);  // 10 + 8, and a half
  cache.give(live);
}

TEST_CASE("an address of somebody else is left alone") {
  BlockCache cache;
  int mine = 0;
  CHECK_FALSE(cache.give(&mine));
  void* const block = cache.take(kMiB);
  CHECK(cache.give(block));
  CHECK_FALSE(cache.give(block));
}

TEST_CASE("a block that is much too large is not given out") {
  BlockCache cache;
  void* const large = cache.take(64 * kMiB);
  cache.give(large);
  void* const small = cache.take(2 * kMiB);
  CHECK(small != large);
  CHECK(cache.live_bytes() == 2 * kMiB);
  cache.give(small);
}

TEST_CASE("whatever is asked for, live and cached blocks stay within the peak of live ones and a half") {
  BlockCache cache;
  std::mt19937 random(5);
  std::vector<void*> live;
  std::size_t peak = 0;
  for (int i = 0; i < 3000; ++i) {
    if (live.size() < 3 || random() % 2 == 0) {
      live.push_back(cache.take((random() % 40 + 1) * kMiB));
      std::memset(live.back(), i, 64);
    } else {
      const std::size_t victim = random() % live.size();
      cache.give(live[victim]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    peak = std::max(peak, cache.live_bytes());
    REQUIRE(cache.live_bytes() + cache.cached_bytes() <= peak + peak / 2);
  }
  for (void* const block : live) cache.give(block);
}

TEST_CASE("blocks in use never overlap") {
  BlockCache cache;
  for (int round = 0; round < 3; ++round) {
    std::vector<unsigned char*> blocks;
    const auto bytes = [](int i) { return kMiB + static_cast<std::size_t>(i) * 5000; };
    for (int i = 0; i < 20; ++i) {
      blocks.push_back(static_cast<unsigned char*>(cache.take(bytes(i))));
      std::memset(blocks.back(), i, bytes(i));
    }
    for (int i = 0; i < 20; ++i) {
      const unsigned char* block = blocks[static_cast<std::size_t>(i)];
      CHECK(block[0] == i);
      CHECK(block[bytes(i) - 1] == i);
    }
    for (unsigned char* const block : blocks) cache.give(block);
  }
}

/// What a step of the MNIST CNN asks for, in this order: activations of the forward pass, which live until
/// backward has come past them, and gradients and scratch memory, which live for one layer.
class ConvolutionalStep {
 public:
  explicit ConvolutionalStep(BlockCache& cache) : cache_(cache) {}

  /// The blocks that it was given.
  std::set<void*> run() {
    seen_.clear();
    void* const conv1 = take(22.2);
    void* const relu1 = take(22.2);
    void* const blocked = take(22.2);
    void* const conv2 = take(37.8);
    give(blocked);
    void* const relu2 = take(37.8);
    void* const pool = take(9.5);
    void* const indices = take(18.9);
    void* const grad_pool = take(9.5);
    void* const grad_relu2 = take(37.8);
    give(grad_pool), give(pool), give(indices);
    void* const grad_conv2 = take(37.8);
    give(grad_relu2), give(relu2);
    void* const scratch = take(37.8);
    void* const grad_relu1 = take(22.2);
    give(scratch), give(grad_conv2), give(conv2);
    void* const grad_conv1 = take(22.2);
    give(grad_relu1), give(relu1), give(grad_conv1), give(conv1);
    return seen_;
  }

 private:
  void* take(double mib) {
    void* const block = cache_.take(static_cast<std::size_t>(mib * static_cast<double>(kMiB)));
    seen_.insert(block);
    return block;
  }
  void give(void* block) { REQUIRE(cache_.give(block)); }

  BlockCache& cache_;
  std::set<void*> seen_;
};

TEST_CASE("a convolutional network's steps map no memory once they have had it") {
  BlockCache cache;
  ConvolutionalStep step(cache);
  std::set<void*> known = step.run();
  known.merge(step.run());
  for (int i = 0; i < 5; ++i) {
    std::set<void*> now = step.run();
    now.merge(std::set<void*>(known));
    CHECK(now == known);
  }
}

}  // namespace
}  // namespace cxtrain
