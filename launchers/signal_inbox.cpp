#include "launchers/signal_inbox.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/base/stop_signals.h"

namespace cxtrain {

namespace {

/// As nohup and a shell's `&` arrange. A blocked signal would arrive all the same.
bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

SignalInbox::SignalInbox(std::initializer_list<int> more) {
  sigset_t caught;
  sigemptyset(&caught);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    if (!is_ignored(signal)) sigaddset(&caught, signal);
  }
  for (const int signal : more) sigaddset(&caught, signal);
  descriptor_ = FileDescriptor(signalfd(-1, &caught, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!descriptor_)
    throw CommunicationError("signalfd failed: " + std::string(std::strerror(errno)),
                             MessageCode::launch_failed);
  pthread_sigmask(SIG_BLOCK, &caught, &before_);
}

SignalInbox::~SignalInbox() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> SignalInbox::take() {
  signalfd_siginfo info{};
  while (read(descriptor_.get(), &info, sizeof info) == sizeof info) {
    const auto now = std::chrono::steady_clock::now();
    const bool again = info.ssi_signo == SIGTERM && terminated_ && now - *terminated_ < kSameRequest;
    if (again) continue;
    if (info.ssi_signo == SIGTERM && !terminated_) terminated_ = now;
    return static_cast<int>(info.ssi_signo);
  }
  return std::nullopt;
}

bool ends_a_process(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

}  // namespace cxtrain
