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
#include "cxtrain/comm/between_nodes/links.h"
#include "cxtrain/comm/between_nodes/part_exchange.h"
#include "cxtrain/comm/between_nodes/slice_exchange.h"

namespace cxtrain {

/// The name of waits for sums over nodes.
inline constexpr const char* kOverNodes = "all_reduce over nodes";

/// The ways in which a courier exchanges an array.
struct CourierExchanges {
  SliceExchange slices;
  PartExchange parts;
};

/// An array that a courier exchanges.
class Errand {
 public:
  virtual ~Errand() = default;
  /// Begins one of the exchanges with the array, and returns the exchange.
  virtual Exchange& begin(CourierExchanges& exchanges) = 0;
  /// Waits until the array has its values. Returns false if `stop` came first.
  virtual bool wait_for_values(const std::atomic<bool>& stop) = 0;
  /// The result is written.
  virtual void finished() = 0;
};

/// A thread that combines arrays over the nodes while the rank computes, one after the other. It sleeps
/// whenever the links have nothing to move. Every node's courier gets equal arrays in the same order.
class Courier final : public PendingWork {
 public:
  /// The watchdog outlives the courier: it applies its deadline to each exchange.
  /// `chunk_bytes`: equal on all nodes. `spins`: the thread may look for bytes again and again, instead of
  /// sleeping, while the rank waits for it; where no other thread needs the core.
  Courier(std::unique_ptr<Links> links, std::size_t chunk_bytes, bool spins, Watchdog& watchdog);
  /// Drops what is not done.
  ~Courier() override;
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// Leaves an errand to the thread.
  void post(std::unique_ptr<Errand> errand);
  /// Notes that the rank waits for the thread, or computes again.
  void set_waited_for(bool waited_for) { waited_for_ = waited_for; }
  /// Carries an errand on the caller's thread, once the thread has none: to wake a thread would take longer
  /// than the way of a small array. If a link breaks, the watchdog ends the process.
  void carry_now(Errand& errand);

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
  std::atomic<bool> waited_for_{false};
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
