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
/// nothing to move. A rank that waits for the courier takes over its work, because to wake a thread takes
/// longer than the way of a chunk over a fast network.
class ThreadCourier final : public Courier, public PendingWork {
 public:
  /// The watchdog outlives the courier: it applies its deadline to each exchange.
  /// `chunk_bytes`: equal on all nodes. `spins`: a rank that waits may keep its core and look for bytes again
  /// and again; where no other thread needs the core.
  ThreadCourier(std::unique_ptr<Links> links, std::size_t chunk_bytes, bool spins, Watchdog& watchdog);
  /// Drops what is not done.
  ~ThreadCourier() override;
  ThreadCourier(const ThreadCourier&) = delete;
  ThreadCourier& operator=(const ThreadCourier&) = delete;

  void post(std::unique_ptr<Errand> errand) override;
  void wait_until_finished(NodeBoard& board, std::uint64_t exchange, int couriers) override;

  State look() noexcept override;

 private:
  class TakeOver;

  void run();
  /// The first errand of the queue; null: there is none.
  Errand* first();
  /// Carries the first errand, and drops it. Returns false if the courier ends, or if the thread gives way.
  bool carry_first();
  bool carry(Errand& errand);
  /// Carries everything that is queued, on the caller's thread. If a link breaks, the watchdog ends the
  /// process.
  void carry_here();
  /// Waits until the links may move a byte.
  void wait_for_bytes();
  /// Whether the thread leaves an exchange to the rank.
  bool gives_way() const { return taken_over_ && !by_rank_; }
  void fail(const char* why) noexcept;

  std::unique_ptr<Links> links_;
  Watchdog& watchdog_;
  CourierExchanges exchanges_;
  const bool spins_;
  std::mutex carrying_;                  ///< held by the thread that uses links and exchanges
  bool by_rank_ = false;                 ///< this thread is the rank's
  Exchange* under_way_ = nullptr;        ///< of the errand that was carried last, if it is not done
  std::int64_t began_ = 0;               ///< `TravelLog::begin` of this errand
  std::atomic<bool> taken_over_{false};  ///< the rank carries the errands
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
