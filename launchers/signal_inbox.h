#pragma once

#include <chrono>
#include <csignal>
#include <initializer_list>
#include <optional>

#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {

/// While it lives, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and the signals `more` do nothing to this
/// process but arrive here; those of the first five that the process ignores stay ignored. Make one before
/// other threads start: they inherit that these signals are not for them.
class SignalInbox {
 public:
  /// Throws CommunicationError.
  SignalInbox(std::initializer_list<int> more = {});
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// To poll for.
  int descriptor() const noexcept { return descriptor_.get(); }
  /// The next signal that has arrived, if any; does not wait. SIGTERMs of one request (`kSameRequest`)
  /// arrive once.
  std::optional<int> take();

 private:
  FileDescriptor descriptor_;
  sigset_t before_{};
  std::optional<std::chrono::steady_clock::time_point> terminated_;  ///< when the first SIGTERM came
};

/// Whether the signal asks a process to end.
bool ends_a_process(int signal);

}  // namespace cxtrain
