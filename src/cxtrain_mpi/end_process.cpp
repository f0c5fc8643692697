#include "end_process.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace {

bool has_tool() {
#ifdef CXTRAIN_SANITIZED
  return true;
#else
  constexpr std::array kVariables{"LD_PRELOAD", "LD_AUDIT", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
                                  "OMP_TOOL_LIBRARIES"};
  return access("/etc/ld.so.preload", R_OK) == 0 || std::ranges::any_of(kVariables, [](const char* name) {
           const char* const value = std::getenv(name);
           return value != nullptr && *value != '\0';
         });
#endif
}

volatile std::sig_atomic_t status_at_alarm = 0;

/// Ends the process with this status in so many seconds, if it has not ended by then.
void end_after(unsigned int seconds, int status) {
  status_at_alarm = status;
  std::signal(SIGALRM, [](int) { _exit(status_at_alarm); });
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  alarm(seconds);
}

}  // namespace

void end_process(int status) {
  if (has_tool()) std::exit(status);
  std::cout.flush();
  std::clog.flush();
  std::fflush(stdout);
  // Of the files that plugins have left open one may be locked for ever: stdin, while a thread reads it.
  end_after(5, status);
  std::fflush(nullptr);
  _exit(status);
}
