#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/comm/between_nodes/courier.h"
#include "cxtrain/comm/between_nodes/links.h"

namespace cxtrain {

/// A courier with a thread, which works while the rank computes. The thread sleeps whenever the links have
/// nothing to move.
class ThreadCourier final : public Courier, public PendingWork {
 public:
  /// The watchdog outlives the courier: it applies its deadline to each exchange.
  /// `chunk_bytes`: equal on all nodes. `spins`: the thread may look for bytes again and again, instead of
  /// sleeping, while the rank waits for it; where no other thread needs the core.
  ThreadCourier(std::unique_ptr<Links> links, std::size_t chunk_bytes, bool spins, Watchdog& watchdog);
  /// Drops what is not done.
  ~ThreadCourier() override;
  ThreadCourier(const ThreadCourier&) = delete;
  ThreadCourier& operator=(const ThreadCourier&) = delete;

  void post(std::unique_ptr<Errand> errand) override;
  /// Carries the errand on the caller's thread: to wake a thread would take longer than the way of a small
  /// array. If a link breaks, the watchdog ends the process.
  void carry_now(Errand& errand) override;
  void wait_until_finished(NodeBoard& board, std::uint64_t exchange, int couriers) override;

  State look() noexcept override;

 private:
  void run();
  void carry(Errand& errand);
  /// Waits until the links may move a byte.
  void wait_for_bytes();
  void fail(const char* why) noexcept;

  std::unique_ptr<Links> links_;
  Watchdog& watchdog_;
  CourierExchanges exchanges_;
  const bool spins_;
  std::atomic<bool> waited_for_{false};  ///< by the rank, which computes otherwise
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Errand>> errands_;  ///< the first one is under way
  std::uint64_t carried_ = 0;
  bool on_the_way_ = false;  ///< an errand has its values
  std::string error_;
  std::chrono::steady_clock::time_point failed_at_{};
  std::atomic<bool> stop_{false};
  std::jthread thread_;
};

}  // namespace cxtrain
