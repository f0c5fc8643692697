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
#include "cxtrain/comm/between_nodes/thread_courier.h"
#include "support/catch.h"
#include "support/sum_in_place.h"

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
    courier.post(std::make_unique<test::SumInPlace>(values));
    const auto alarm = first.wait();
    REQUIRE(alarm.has_value());
    CHECK(alarm->first == (gone ? Watchdog::Cause::error : Watchdog::Cause::deadline));
    CHECK(alarm->second == (gone ? "node 1 is gone" : "all_reduce over nodes"));
  }  // ends although the exchange does not
  CHECK(values == std::vector<float>(1000, 1));
}

}  // namespace
}  // namespace cxtrain
