#include "cxtrain/base/stop_signals.h"

#include <unistd.h>

#include <atomic>

namespace cxtrain {
namespace {

std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");

void note(int signal) {
  if (received_signal.exchange(signal) != 0) _exit(128 + signal);
}

void install(int signal, struct sigaction& before) {
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

const char* reason_of(ExitCode code) {
  switch (code) {
    case ExitCode::interrupted:
      return "stopped by SIGINT";
    case ExitCode::requeue:
      return "stopped to be started again";
    default:
      return "stopped by SIGTERM";
  }
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  install(SIGINT, before_int_);
  install(SIGTERM, before_term_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

int StopSignals::received() noexcept { return received_signal; }

Interrupted::Interrupted(ExitCode code) : Error(code, reason_of(code)) {}

}  // namespace cxtrain
