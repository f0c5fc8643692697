#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/cluster/flight_recorder.h"

namespace cxtrain {

/// Work that other ranks can block although no thread waits in it: collectives that a GPU runs.
class PendingWork {
 public:
  struct State {
    const char* operation = nullptr;  ///< the oldest running operation, a literal; null: none
    std::uint64_t number = 0;         ///< another operation has another number
    std::string error = {};           ///< an error in the background; empty: none
  };
  virtual ~PendingWork() = default;
  /// Called by the watchdog's thread, ten times a second. Must not wait.
  virtual State look() noexcept = 0;
};

/// Detects a wait for other ranks that does not end. MPI's blocking calls cannot be interrupted, so a
/// separate thread checks the clock ten times a second. The thread also checks work that runs elsewhere
/// (`watch`).
///
/// Time in which this process did not run (stopped, machine asleep) does not count: it does not make a rank
/// late.
class Watchdog {
 public:
  enum class Cause {
    deadline,  ///< the wait has lasted longer than the timeout
    signal,    ///< SIGINT or SIGTERM has come (`StopSignals`) during the wait: SIGKILL may be next
    error,     ///< watched work has failed; `operation` is the error
  };
  /// Called by the watchdog's thread. The waiting thread does not leave its wait meanwhile. If the call
  /// returns, the wait continues: with a new deadline, or after a signal without a change. Watched work may
  /// end meanwhile.
  using Alarm = std::function<void(Cause cause, const char* operation, double seconds)>;

  /// The operation that is waited for.
  struct WaitInfo {
    const char* operation = nullptr;  ///< null: nothing
    std::uint64_t number = 0;         ///< the recorder's number, or the number of the watched work
    bool of_watched_work = false;
    bool of_some_ranks = false;  ///< only some ranks take part (`Wait::Of`)
  };
  /// Another task of the watchdog's thread: `work` is called when `descriptor` can be read, with the
  /// operation that the other thread waits for.
  struct ExtraPoll {
    int descriptor = -1;
    std::function<void(const WaitInfo& wait)> work;
  };

  Watchdog(double timeout_seconds, Alarm alarm, ExtraPoll extra_poll);
  Watchdog(double timeout_seconds, Alarm alarm) : Watchdog(timeout_seconds, std::move(alarm), ExtraPoll{}) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Sets the time limit of a wait from now on, in seconds.
  void set_timeout(double seconds) noexcept { timeout_seconds_.store(seconds); }

  /// Applies the deadline to this work, too, until `forget`. Each operation of the work has a deadline of its
  /// own.
  void watch(PendingWork& work);
  /// Stops watching the work. Does nothing for work that is not watched.
  void forget(PendingWork& work) noexcept;

  /// The waits so far.
  const FlightRecorder& recorder() const noexcept { return recorder_; }
  /// The wait of an alarm, for use during the alarm.
  const WaitInfo& wait_of_alarm() const noexcept { return wait_of_alarm_; }
  /// Returns the waits so far, and the unfinished part of watched work, for a log. Any thread may call it.
  std::string record();

  /// Guards one blocking call: begins with the object and ends with it. Costs a few writes to memory; the
  /// recorder notes it. Inside another Wait it has no effect: the outer Wait counts. `operation` must outlive
  /// the object. Used by one thread at a time.
  class Wait {
   public:
    /// Participants: all ranks of the node, each equally often, or some ranks.
    enum class Of { all_ranks, some_ranks };
    Wait(Watchdog& watchdog, const char* operation, Of of = Of::all_ranks) noexcept;
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Watchdog& watchdog_;
    std::uint64_t number_;
    bool inside_another_;
  };

 private:
  struct Pending {
    PendingWork* work;
    std::uint64_t number = 0;
    const char* operation = nullptr;
    double seconds = 0;  ///< duration of this operation so far
  };

  void run(const std::stop_token& stop);
  /// Returns the running operation.
  WaitInfo look_at_pending(double tick);
  WaitInfo of_wait() const noexcept;
  void alarm(Cause cause, std::uint64_t wait, double seconds);

  Alarm alarm_;
  ExtraPoll extra_poll_;
  FileDescriptor wake_;
  std::atomic<double> timeout_seconds_;
  std::atomic<std::uint64_t> waits_{0};  ///< begun and ended; odd during a wait
  std::atomic<const char*> operation_{nullptr};
  std::atomic<bool> of_some_ranks_{false};  ///< in the current wait
  FlightRecorder recorder_;
  WaitInfo wait_of_alarm_;
  std::recursive_mutex pending_mutex_;  ///< an alarm about watched work may call `record`
  std::vector<Pending> pending_;
  std::jthread thread_;
};

}  // namespace cxtrain
