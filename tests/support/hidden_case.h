#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.h"

namespace cxtrain::test {

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
