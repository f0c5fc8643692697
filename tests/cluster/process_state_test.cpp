#include "cxtrain/cluster/process_state.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("the kernel tells of a process whether it runs, is stopped, or has ended") {
  CHECK_THAT(state_of_process(getpid()), Catch::Matchers::StartsWith("it runs (state R"));
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  CHECK(is_stopped(child));
  CHECK_THAT(state_of_process(child), Catch::Matchers::StartsWith("it is stopped (state T"));
  kill(child, SIGCONT);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  CHECK_FALSE(is_stopped(child));
  CHECK_THAT(state_of_process(child), Catch::Matchers::StartsWith("it has ended"));
  waitpid(child, &status, 0);
  CHECK(state_of_process(child) == "there is no such process");
}

}  // namespace
}  // namespace cxtrain
