#include "cxtrain/base/stop_signals.h"

#include <unistd.h>

#include <atomic>

namespace cxtrain {
namespace {

std::atomic<int> received_signal{0};
std::atomic<int> requeue_wanted{0}, requeue_noted{0};  ///< signals
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");

void note(int signal) {
  if (received_signal.exchange(signal) != 0) _exit(128 + signal);
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

StopSignals::StopSignals(int requeue_signal) : requeue_signal_(requeue_signal) {
  received_signal = 0;
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
