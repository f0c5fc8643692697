#include "cxtrain/comm/node/node_arena.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "support/catch.h"
#include "support/host_communicator.h"

namespace cxtrain {
namespace {

constexpr std::size_t kPages = 3;

/// An array of numbers: `kPages` pages for each rank of a node.
class Numbers {
 public:
  explicit Numbers(HostCommunicator& communicator) : node_(*communicator.node_memory()) {
    arena_ = node_.arena(kPages * NodeArena::page_bytes());
    REQUIRE(arena_ != nullptr);
    share_ = kPages * NodeArena::page_bytes() / sizeof(std::int32_t);
  }

  std::span<std::int32_t> own() const { return {reinterpret_cast<std::int32_t*>(arena_->own()), share_}; }
  std::span<std::int32_t> whole() const {
    return {reinterpret_cast<std::int32_t*>(arena_->whole()),
            share_ * static_cast<std::size_t>(test_world().size())};
  }
  void begin_update() { node_.begin_update(std::array{arena_.get()}); }
  void end_update() { node_.end_update(std::array{arena_.get()}); }
  /// Fills each rank's share with `value` plus the rank.
  void fill(std::int32_t value) {
    begin_update();
    std::fill(own().begin(), own().end(), value + test_world().rank());
    end_update();
  }
  /// Whether this rank sees `value(rank)` in the share of every rank.
  template <class Value>
  bool shows(const Value& value) const {
    for (int rank = 0; rank < test_world().size(); ++rank) {
      const auto share = whole().subspan(static_cast<std::size_t>(rank) * share_, share_);
      if (std::any_of(share.begin(), share.end(), [&](std::int32_t number) { return number != value(rank); }))
        return false;
    }
    return true;
  }

 private:
  NodeMemory& node_;
  std::shared_ptr<NodeArena> arena_;
  std::size_t share_ = 0;
};

bool skips() { return test_world().size() == 1; }

TEST_CASE("all ranks see what each rank has written to its share", "[node_arena]") {
  if (skips()) return test::skip_for_ranks("a node of one rank has no array");
  HostCommunicator communicator = test::host_communicator();
  Numbers numbers(communicator);
  for (std::int32_t round = 0; round < 100; ++round) {
    numbers.fill(10 * round);
    CHECK(numbers.shows([&](int rank) { return 10 * round + rank; }));
  }
}

TEST_CASE("what all ranks write to the array is each rank's own until an update, which takes it over once",
          "[node_arena]") {
  if (skips()) return test::skip_for_ranks("a node of one rank has no array");
  HostCommunicator communicator = test::host_communicator();
  Numbers numbers(communicator);
  numbers.fill(1);
  for (std::int32_t factor = 2; factor <= 16; factor *= 2) {
    for (int turn = 0; turn < test_world().size(); ++turn) {
      if (turn == test_world().rank()) {
        for (std::int32_t& number : numbers.whole()) number *= 2;
      }
      test_world().barrier();
    }
    CHECK(numbers.shows([&](int rank) { return factor * (1 + rank); }));
    numbers.begin_update();
    CHECK(numbers.own()[0] == factor * (1 + test_world().rank()));
    if (factor == 4) numbers.begin_update();  // to read once more, before the update proper
    numbers.end_update();
    CHECK(numbers.shows([&](int rank) { return factor * (1 + rank); }));
  }
  // No copy is left: every rank sees what the owners write next.
  numbers.fill(100);
  CHECK(numbers.shows([](int rank) { return 100 + rank; }));
}

TEST_CASE("an update takes over the pages that were written, and leaves the others alone", "[node_arena]") {
  if (skips()) return test::skip_for_ranks("a node of one rank has no array");
  HostCommunicator communicator = test::host_communicator();
  Numbers numbers(communicator);
  numbers.fill(0);
  const std::size_t page = NodeArena::page_bytes() / sizeof(std::int32_t), middle = page + 5;
  for (std::size_t share = 0; share < numbers.whole().size(); share += kPages * page)
    numbers.whole()[share + middle] = -7;
  numbers.begin_update();
  CHECK(numbers.own()[middle] == -7);
  CHECK(numbers.own()[0] == test_world().rank());
  numbers.own()[0] = numbers.own()[2 * page] = 50;
  numbers.end_update();
  for (std::size_t share = 0; share < numbers.whole().size(); share += kPages * page) {
    CHECK(numbers.whole()[share + middle] == -7);
    CHECK(numbers.whole()[share] == 50);
    CHECK(numbers.whole()[share + 2 * page] == 50);
    CHECK(numbers.whole()[share + 1] == static_cast<std::int32_t>(share / (kPages * page)));
  }
}

TEST_CASE("an array outlives its communicator", "[node_arena]") {
  if (skips()) return test::skip_for_ranks("a node of one rank has no array");
  std::optional<Numbers> numbers;
  {
    HostCommunicator communicator = test::host_communicator();
    numbers.emplace(communicator);
    numbers->fill(3);
  }
  test_world().barrier();
  CHECK(numbers->shows([](int rank) { return 3 + rank; }));
}

TEST_CASE("ranks of several nodes have no array", "[node_arena]") {
  HostCommunicator communicator = test::host_communicator(/*per_node=*/1);
  CHECK(communicator.node_memory()->arena(NodeArena::page_bytes()) == nullptr);
}

}  // namespace
}  // namespace cxtrain
