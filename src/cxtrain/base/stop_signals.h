#pragma once

#include <chrono>
#include <csignal>
#include <string>

#include "cxtrain/base/error.h"

namespace cxtrain {

/// A SIGTERM that comes within this time of the first one is the same request. Slurm sends two within
/// milliseconds at the end of a job's time (slurmd's rpc_timelimit and rpc_terminate_job), and so do programs
/// that signal a process and its group (`timeout`).
constexpr std::chrono::seconds kSameRequest{2};

/// While one lives, SIGINT and SIGTERM do not end this process but are noted, for a loop that asks at a safe
/// place; the second one ends it at once, with 128 + its number, other than a SIGTERM of the same
/// request. So is the signal by which a batch system says that time is nearly up (SIGUSR1), however
/// often it comes. A signal that was ignored when the object was made stays ignored. One at a time in a
/// process; made and destroyed by one thread.
class StopSignals {
 public:
  /// `requeue_signal`: by which the run is asked to save and make way; 0: none. `announces`: the first SIGINT
  /// or SIGTERM writes a line to stderr at once, since a step may take long, or never end.
  explicit StopSignals(int requeue_signal = 0, bool announces = false);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// SIGINT or SIGTERM, if one has come since the last object was made; else 0. Any thread may ask.
  static int received() noexcept;
  /// Whether the signal has come by which the object's maker is asked to make way, even before the object was
  /// made (`note_early`). Any thread may ask.
  static bool asked_to_requeue() noexcept;

  /// From now on SIGUSR1 is noted for the first object that is made, instead of ending this process, where it
  /// would end it. For the beginning of a program.
  static void note_early() noexcept;

 private:
  int requeue_signal_;
  struct sigaction before_requeue_ {};
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

/// Leaves the loops when a signal, or a callback that wants the job started again, has asked for it, on all
/// ranks at the same place.
class Interrupted : public Error {
 public:
  /// `code`: `interrupted`, `terminated` or `requeue`. `by`: "SIGTERM", completes "stopped by".
  Interrupted(ExitCode code, std::string by)
      : Error(code, MessageCode::none, "stopped by " + by), by_(std::move(by)) {}
  const std::string& by() const noexcept { return by_; }

 private:
  std::string by_;
};

}  // namespace cxtrain
