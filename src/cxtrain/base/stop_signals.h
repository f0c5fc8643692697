#pragma once

#include <csignal>

#include "cxtrain/base/error.h"

namespace cxtrain {

/// While one lives, SIGINT and SIGTERM do not end this process but are noted, for a loop that asks at a safe
/// place; the second one ends it at once, with 128 + its number. A signal that was ignored when the object
/// was made stays ignored. One at a time in a process; made and destroyed by one thread.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// SIGINT or SIGTERM, if one has come since the last object was made; else 0. Any thread may ask.
  static int received() noexcept;

 private:
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

/// Leaves the loops when a signal, or a callback that wants the job started again, has asked for it, on all
/// ranks at the same place.
class Interrupted : public Error {
 public:
  /// `code`: `interrupted`, `terminated` or `requeue`.
  explicit Interrupted(ExitCode code);
};

}  // namespace cxtrain
