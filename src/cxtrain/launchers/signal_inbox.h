#pragma once

#include <csignal>
#include <optional>

namespace cxtrain {

/// While it lives, SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 do nothing to this process but arrive here.
/// Make one before other threads start: they inherit that these signals are not for them.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// To poll for.
  int descriptor() const noexcept { return descriptor_; }
  /// The next signal that has arrived, if any; does not wait.
  std::optional<int> take();

 private:
  int descriptor_ = -1;
  sigset_t before_{};
};

/// Whether the signal asks a process to end.
bool ends_a_process(int signal);

}  // namespace cxtrain
