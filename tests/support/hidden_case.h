#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.h"

namespace cxtrain::test {

/// Whether limits on a process's address space mean anything: sanitizers take terabytes of it for themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kAddressSpaceIsOurs = false;
#else
inline constexpr bool kAddressSpaceIsOurs = true;
#endif

/// Runs a test case of this program, hidden behind a tag ("[.tag]"), in a process of its own: for limits that
/// would hold for all further tests. True where it passes.
inline bool passes_alone(const char* tag) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "tests", tag, nullptr);
    _exit(127);
  }
  REQUIRE(child > 0);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace cxtrain::test
