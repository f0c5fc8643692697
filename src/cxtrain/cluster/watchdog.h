#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace cxtrain {

/// A deadline on waits that have none of their own: MPI's blocking calls. A thread looks a few times a second
/// whether the rank has been in one of them for too long, and then ends the process, so that the launcher
/// ends the job. Marking a wait costs two atomic stores and a look at the clock.
class Watchdog {
 public:
  /// What to do when a wait is too long; does not return in production. `operation` names the call.
  using Bark = std::function<void(const char* operation, double seconds)>;

  explicit Watchdog(Bark bark);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The longest wait from now on. Starts the thread at its first call.
  void set_timeout(double seconds);

  /// Marks a wait while it lives. Waits do not nest; one thread waits.
  class Wait {
   public:
    Wait(Watchdog& watchdog, const char* operation);
    ~Wait() { watchdog_.operation_.store(nullptr, std::memory_order_release); }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Watchdog& watchdog_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  void watch(const std::stop_token& stop);

  Bark bark_;
  std::atomic<const char*> operation_{nullptr};  ///< null: not waiting
  std::atomic<Clock::rep> since_{0};
  std::atomic<double> timeout_seconds_{0};
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

}  // namespace cxtrain
