#include "cxtrain/base/stop_signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string_view>

namespace cxtrain {
namespace {

std::atomic<int> received_signal{0};
std::atomic<std::int64_t> received_at{0};  ///< in nanoseconds
std::atomic<bool> first_is_announced{false};
std::atomic<int> requeue_wanted{0}, requeue_noted{0};  ///< signals
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free,
              "written by a signal handler");

std::int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Calls only functions that a signal handler may call.
void announce(int signal) {
  constexpr std::string_view kInterrupted =
      "\nSIGINT: the run ends on all ranks after this step; another SIGINT ends it at once\n";
  constexpr std::string_view kTerminated =
      "\nSIGTERM: the run ends on all ranks after this step; another SIGTERM ends it at once\n";
  const int error = errno;
  const std::string_view text = signal == SIGINT ? kInterrupted : kTerminated;
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) {
    // Nobody reads stderr.
  }
  errno = error;
}

void note(int signal) {
  const std::int64_t now = nanoseconds();
  int first = 0;
  if (received_signal == 0) received_at = now;
  if (received_signal.compare_exchange_strong(first, signal)) {
    if (first_is_announced) announce(signal);
    return;
  }
  if (signal == SIGTERM && first == SIGTERM &&
      now - received_at < std::chrono::nanoseconds(kSameRequest).count())
    return;
  _exit(128 + signal);
}

void note_requeue(int signal) { requeue_noted = signal; }

void install(int signal, void (*handler)(int), struct sigaction& before) {
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals(int requeue_signal, bool announces) : requeue_signal_(requeue_signal) {
  received_signal = 0;
  first_is_announced = announces;
  requeue_wanted = requeue_signal;
  install(SIGINT, note, before_int_);
  install(SIGTERM, note, before_term_);
  if (requeue_signal_ != 0) install(requeue_signal_, note_requeue, before_requeue_);
}

StopSignals::~StopSignals() {
  if (requeue_signal_ != 0) sigaction(requeue_signal_, &before_requeue_, nullptr);
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

int StopSignals::received() noexcept { return received_signal; }

bool StopSignals::asked_to_requeue() noexcept {
  const int wanted = requeue_wanted;
  return wanted != 0 && requeue_noted == wanted;
}

void StopSignals::note_early() noexcept {
  struct sigaction before {};
  sigaction(SIGUSR1, nullptr, &before);
  if (before.sa_handler == SIG_DFL) install(SIGUSR1, note_requeue, before);
}

}  // namespace cxtrain
