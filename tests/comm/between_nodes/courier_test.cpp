#include "cxtrain/comm/between_nodes/courier.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/between_nodes/polled_courier.h"
#include "cxtrain/comm/between_nodes/thread_courier.h"
#include "cxtrain/comm/node/node_sum.h"
#include "support/catch.h"
#include "support/fake_network.h"

namespace cxtrain {
namespace {

/// Links to a node that says nothing, or that is gone.
class LinksToNobody final : public Links {
 public:
  explicit LinksToNobody(bool gone) : gone_(gone) {}

  int node() const override { return 0; }
  int nodes() const override { return 2; }
  std::uint64_t send(int, std::span<const std::byte> bytes) override { return to_send_ += bytes.size(); }
  std::uint64_t receive(int, std::span<std::byte> bytes) override { return to_receive_ += bytes.size(); }
  std::uint64_t sent(int) const override { return 0; }
  std::uint64_t received(int) const override { return 0; }
  bool proceed() override {
    if (gone_) throw CommunicationError("node 1 is gone");
    return false;
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return std::exchange(interrupted_, false); });
  }
  void interrupt() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      interrupted_ = true;
    }
    changed_.notify_all();
  }

 private:
  bool gone_;
  std::uint64_t to_send_ = 0, to_receive_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool interrupted_ = false;
};

/// What a watchdog was the first to say.
class FirstAlarm {
 public:
  void operator()(Watchdog::Cause cause, const std::string& operation) {
    {
      const std::lock_guard lock(mutex_);
      if (!alarm_) alarm_ = {cause, operation};
    }
    changed_.notify_all();
  }
  std::optional<std::pair<Watchdog::Cause, std::string>> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [this] { return alarm_.has_value(); });
    return alarm_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::pair<Watchdog::Cause, std::string>> alarm_;
};

TEST_CASE("the watchdog sees an exchange that does not end, and a link that is broken") {
  const bool gone = GENERATE(false, true);
  FirstAlarm first;
  Watchdog watchdog(gone ? 1000 : 0.2,
                    [&](Watchdog::Cause cause, const char* operation, double) { first(cause, operation); });
  std::vector<float> values(1000, 1);
  {
    ThreadCourier courier(std::make_unique<LinksToNobody>(gone), /*chunk_bytes=*/4096, /*spins=*/true,
                          watchdog);
    courier.post(std::make_unique<SumInPlace>(reinterpret_cast<std::byte*>(values.data()),
                                              c10::ScalarType::Float, values.size(), ReduceOp::sum, 1));
    const auto alarm = first.wait();
    REQUIRE(alarm.has_value());
    CHECK(alarm->first == (gone ? Watchdog::Cause::error : Watchdog::Cause::deadline));
    CHECK(alarm->second == (gone ? "node 1 is gone" : "all_reduce over nodes"));
  }  // ends although the exchange does not
  CHECK(values == std::vector<float>(1000, 1));
}

TEST_CASE("couriers carry errands in their order, those of the caller last, with and without a thread") {
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
  std::vector<std::jthread> ranks;
  for (int node = 0; node < 2; ++node) {
    ranks.emplace_back([&, node] {
      Watchdog watchdog(1000, [](Watchdog::Cause, const char*, double) {});
      auto links = std::make_unique<Turns>(network.links_of(node), one_at_a_time);
      std::unique_ptr<Courier> courier;
      if (has_thread) courier = std::make_unique<ThreadCourier>(std::move(links), 4096, true, watchdog);
      if (!has_thread) courier = std::make_unique<PolledCourier>(std::move(links), 4096, watchdog);
      for (std::size_t i = 0; i < kArrays; ++i) {
        auto* const data = reinterpret_cast<std::byte*>(arrays[node][i].data());
        auto sum =
            std::make_unique<SumInPlace>(data, c10::ScalarType::Float, kCount, ReduceOp::sum, /*divisor=*/1);
        if (i + 1 < kArrays) {
          courier->post(std::move(sum));
        } else {
          courier->carry_now(*sum);  // waits for those before
        }
      }
    });
  }
  ranks.clear();
  for (int node = 0; node < 2; ++node) {
    for (std::size_t i = 0; i < kArrays; ++i)
      CHECK(arrays[node][i] == std::vector<float>(kCount, static_cast<float>(10 + 2 * static_cast<int>(i))));
  }
}

}  // namespace
}  // namespace cxtrain
