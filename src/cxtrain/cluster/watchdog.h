#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/cluster/flight_recorder.h"

namespace cxtrain {

/// Work that other ranks can keep from ending though no thread stands still in it: collectives that a GPU
/// works on.
class PendingWork {
 public:
  struct State {
    const char* operation = nullptr;  ///< the oldest that goes on, a literal; null: none does
    std::uint64_t number = 0;         ///< another operation has another number
    std::string error = {};           ///< what has gone wrong in the background; empty: nothing
  };
  virtual ~PendingWork() = default;
  /// Called by the watchdog's thread, ten times a second; waits for nothing.
  virtual State look() noexcept = 0;
};

/// Notices that the thread that talks to the other ranks waits in vain. MPI's blocking calls cannot be
/// interrupted, so that someone else has to look at the clock: a thread that wakes ten times a second. It
/// also looks at work that goes on elsewhere (`watch`).
///
/// Time in which this process did not run (stopped, a machine asleep) does not count: a rank that wakes up is
/// not late because of that.
class Watchdog {
 public:
  enum class Cause {
    deadline,  ///< the wait has lasted for longer than the timeout
    signal,    ///< SIGINT or SIGTERM has come (`StopSignals`) and the wait goes on: SIGKILL may be next
    error,     ///< watched work has failed; `operation` says how
  };
  /// Called by the watchdog's thread; the waiting thread does not leave its wait meanwhile. Where it returns,
  /// the wait goes on: with a new deadline, after a signal as if nothing had been. The end of watched work is
  /// not held up.
  using Bark = std::function<void(Cause cause, const char* operation, double seconds)>;

  /// What is waited for.
  struct Subject {
    const char* operation = nullptr;  ///< null: nothing
    std::uint64_t number = 0;         ///< the recorder's, or that of the watched work
    bool of_watched_work = false;
    bool of_some_ranks = false;  ///< `Wait::Of`
  };
  /// What the thread does besides: called when `descriptor` can be read, with what the other thread waits
  /// for.
  struct Duty {
    int descriptor = -1;
    std::function<void(const Subject& subject)> work;
  };

  Watchdog(double timeout_seconds, Bark bark, Duty duty);
  Watchdog(double timeout_seconds, Bark bark) : Watchdog(timeout_seconds, std::move(bark), Duty{}) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// How long a wait may take from now on.
  void set_timeout(double seconds) noexcept { timeout_seconds_.store(seconds); }

  /// Has the deadline hold for this work, too, until `forget`; each of its operations has it for itself.
  void watch(PendingWork& work);
  /// The work is not looked at any more. Does nothing for work that is not watched.
  void forget(PendingWork& work) noexcept;

  /// The waits so far.
  const FlightRecorder& recorder() const noexcept { return recorder_; }
  /// For a bark: what it is about.
  const Subject& subject() const noexcept { return subject_; }
  /// The waits so far, and what is left of watched work, for a log. Any thread may ask.
  std::string record();

  /// Guards one blocking call: begins with the object and ends with it. Costs a few writes to memory and is
  /// noted by the recorder. Inside another one it has no effect: the outer one counts. `operation` outlives
  /// it. Of one thread at a time.
  class Wait {
   public:
    /// Who goes through it: all ranks of the node, each as often as this one, or some.
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
    double seconds = 0;  ///< that this operation has gone on
  };

  void run(const std::stop_token& stop);
  /// Returns what goes on.
  Subject look_at_pending(double tick);
  Subject of_wait() const noexcept;
  void bark(Cause cause, std::uint64_t wait, double seconds);

  Bark bark_;
  Duty duty_;
  FileDescriptor wake_;
  std::atomic<double> timeout_seconds_;
  std::atomic<std::uint64_t> waits_{0};  ///< begun and ended; odd while one goes on
  std::atomic<const char*> operation_{nullptr};
  std::atomic<bool> of_some_ranks_{false};  ///< the wait that goes on
  FlightRecorder recorder_;
  Subject subject_;
  std::recursive_mutex pending_mutex_;  ///< a bark that is about watched work may ask for the record
  std::vector<Pending> pending_;
  std::jthread thread_;
};

}  // namespace cxtrain
