#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "cxtrain/cli/main.h"

namespace {

/// Without a current folder, LibTorch's mathematics library ends the process while it is loaded, with a
/// message about another file. This runs before any library's own initialisation, and uses none but the C
/// library.
void require_current_folder(int, char**, char**) {
  char path[PATH_MAX];
  if (getcwd(path, sizeof path) != nullptr) return;
  constexpr std::string_view kMessage =
      "error: the current folder cannot be used (it has been deleted, or may not be read); change to "
      "another [file-failed]\n";
  static_cast<void>(!write(STDERR_FILENO, kMessage.data(), kMessage.size()));
  _exit(2);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = require_current_folder;

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

/// Ends the process with this status, and leaves the static objects of its libraries as they are. LibTorch's
/// take back one by one the thousands of operators that they have registered, a third of what a process costs
/// that only starts and ends; and a library or a plugin that crashes there would give a run that has ended
/// well another status. Where a library was preloaded, or variables name a tool that CUDA, NVTX or OpenMP has
/// to load (a profiler, which may write its file only then), or where a sanitizer was built in, the process
/// ends as any other does.
[[noreturn]] void end_process(int status) {
  if (has_tool()) std::exit(status);
  std::cout.flush();
  std::clog.flush();
  std::fflush(stdout);
  // Of the files that plugins have left open one may be locked for ever: stdin, while a thread reads it.
  end_after(5, status);
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace

int main(int argc, char** argv) { end_process(cxtrain::run_main(argc, argv)); }
