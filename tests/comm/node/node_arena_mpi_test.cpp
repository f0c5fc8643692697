#include "cxtrain/comm/node/node_arena.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "cxtrain/base/huge_pages.h"
#include "support/catch.h"
#include "support/host_communicator.h"

namespace cxtrain {
namespace {

constexpr std::size_t kPages = 3;

/// A row of numbers, behind a row of one page for each rank of a node.
class Numbers {
 public:
  /// `pages`: of a share.
  explicit Numbers(HostCommunicator& communicator, std::size_t pages = kPages)
      : node_(*communicator.node_memory()), share_(pages * page_bytes() / sizeof(std::int32_t)) {
    arena_ = node_.arena(std::array{page_bytes(), pages * page_bytes()});
    REQUIRE(arena_ != nullptr);
  }

  std::span<std::int32_t> own() const { return {reinterpret_cast<std::int32_t*>(arena_->own(1)), share_}; }
  std::span<std::int32_t> whole() const {
    return {reinterpret_cast<std::int32_t*>(arena_->whole(1)),
            share_ * static_cast<std::size_t>(test_world().size())};
  }
  NodeArena& arena() const { return *arena_; }
  void begin_update() { node_.begin_update(*arena_); }
  void end_update() { node_.end_update(*arena_); }
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
  const std::size_t share_;  ///< numbers
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
  const std::size_t page = page_bytes() / sizeof(std::int32_t), middle = page + 5;
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

TEST_CASE("rows lie apart", "[node_arena]") {
  if (skips()) return test::skip_for_ranks("a node of one rank has no array");
  HostCommunicator communicator = test::host_communicator();
  Numbers numbers(communicator);
  numbers.fill(7);
  numbers.begin_update();
  std::fill_n(numbers.arena().own(0), page_bytes(), std::byte{1});
  numbers.end_update();
  CHECK(numbers.shows([](int rank) { return 7 + rank; }));
  const std::span first(numbers.arena().whole(0),
                        page_bytes() * static_cast<std::size_t>(test_world().size()));
  CHECK(std::ranges::all_of(first, [](std::byte byte) { return byte == std::byte{1}; }));
}

TEST_CASE("huge pages keep the values, and a write copies for one rank only", "[node_arena]") {
  if (skips()) return test::skip_for_ranks("a node of one rank has no array");
  HostCommunicator communicator = test::host_communicator();
  Numbers numbers(communicator, 5 * kHugePage / 2 / page_bytes());
  numbers.fill(20);
  numbers.arena().use_huge_pages();
  CHECK(numbers.shows([](int rank) { return 20 + rank; }));
  test_world().barrier();
  for (std::size_t i = 0; i < numbers.whole().size(); i += 1000) numbers.whole()[i] = -test_world().rank();
  test_world().barrier();
  CHECK(numbers.whole()[1000] == -test_world().rank());
  numbers.begin_update();
  CHECK(numbers.own()[1] == 20 + test_world().rank());
  numbers.end_update();
  numbers.fill(30);
  CHECK(numbers.shows([](int rank) { return 30 + rank; }));
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
  CHECK(communicator.node_memory()->arena(std::array{page_bytes()}) == nullptr);
}

}  // namespace
}  // namespace cxtrain
