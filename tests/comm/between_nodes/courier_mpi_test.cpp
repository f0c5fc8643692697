#include "cxtrain/comm/between_nodes/courier.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cxtrain/comm/between_nodes/node_board.h"
#include "cxtrain/comm/between_nodes/polled_courier.h"
#include "cxtrain/comm/between_nodes/thread_courier.h"
#include "support/catch.h"
#include "support/fake_network.h"
#include "support/mpi_world.h"
#include "support/sum_in_place.h"

namespace cxtrain {
namespace {

TEST_CASE("couriers carry errands in their order, with and without a thread", "[courier]") {
  const bool has_thread = GENERATE(true, false);
  test::FakeNetwork network(2, 7);
  // The fake network belongs to one thread at a time: the nodes take turns.
  std::mutex one_at_a_time;
  /// Links whose calls take turns with those of the other node.
  class Turns final : public Links {
   public:
    Turns(std::unique_ptr<Links> links, std::mutex& mutex) : links_(std::move(links)), mutex_(mutex) {}
    int node() const override { return links_->node(); }
    int nodes() const override { return links_->nodes(); }
    std::uint64_t send(int node, std::span<const std::byte> bytes) override {
      const std::lock_guard lock(mutex_);
      return links_->send(node, bytes);
    }
    std::uint64_t receive(int node, std::span<std::byte> bytes) override {
      const std::lock_guard lock(mutex_);
      return links_->receive(node, bytes);
    }
    std::uint64_t sent(int node) const override {
      const std::lock_guard lock(mutex_);
      return links_->sent(node);
    }
    std::uint64_t received(int node) const override {
      const std::lock_guard lock(mutex_);
      return links_->received(node);
    }
    bool proceed() override {
      const std::lock_guard lock(mutex_);
      return links_->proceed();
    }
    void wait() override { std::this_thread::yield(); }
    void interrupt() noexcept override {}

   private:
    std::unique_ptr<Links> links_;
    std::mutex& mutex_;
  };
  constexpr std::size_t kArrays = 5, kCount = 3000;
  std::vector<std::vector<float>> arrays[2];
  for (int node = 0; node < 2; ++node) {
    for (std::size_t i = 0; i < kArrays; ++i)
      arrays[node].emplace_back(kCount, static_cast<float>(10 * node + static_cast<int>(i)));
  }
  const MpiComm alone = test_world().comm().split(test_world().rank(), 0);
  std::vector<std::optional<NodeBoard>> boards;
  for (int node = 0; node < 2; ++node) boards.push_back(NodeBoard::make(alone));
  std::vector<std::uint64_t> finished[2];  // errands
  std::vector<std::jthread> ranks;
  for (int node = 0; node < 2; ++node) {
    REQUIRE(boards[static_cast<std::size_t>(node)].has_value());
    ranks.emplace_back([&, node] {
      NodeBoard& board = *boards[static_cast<std::size_t>(node)];
      Watchdog watchdog(1000, [](Watchdog::Cause, const char*, double) {});
      auto links = std::make_unique<Turns>(network.links_of(node), one_at_a_time);
      std::unique_ptr<Courier> courier;
      if (has_thread) courier = std::make_unique<ThreadCourier>(std::move(links), 4096, true, watchdog);
      if (!has_thread) courier = std::make_unique<PolledCourier>(std::move(links), 4096, watchdog);
      for (std::size_t i = 0; i < kArrays; ++i) {
        courier->post(std::make_unique<test::SumInPlace>(arrays[node][i], [&, node, i] {
          finished[node].push_back(i);
          board.finish(i + 1);
        }));
      }
      courier->wait_until_finished(board, kArrays, /*couriers=*/1);
    });
  }
  ranks.clear();
  for (int node = 0; node < 2; ++node) {
    CHECK(finished[node] == std::vector<std::uint64_t>{0, 1, 2, 3, 4});
    for (std::size_t i = 0; i < kArrays; ++i)
      CHECK(arrays[node][i] == std::vector<float>(kCount, static_cast<float>(10 + 2 * static_cast<int>(i))));
  }
}

}  // namespace
}  // namespace cxtrain
