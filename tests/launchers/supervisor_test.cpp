#include "launchers/supervisor.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <new>

#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/environment_variable.h"

namespace cxtrain::test {
namespace {

/// Ranks as processes of their own, without MPI: what they do after they have said who they are.
class Ranks {
 public:
  Ranks(const Supervisor& supervisor, const std::vector<std::function<int(SupervisorLink&)>>& bodies) {
    setenv(kSupervisorVariable, supervisor.address().c_str(), 1);
    void* shared = mmap(nullptr, sizeof(std::atomic<std::size_t>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto* connected = new (shared) std::atomic<std::size_t>(0);
    for (std::size_t rank = 0; rank < bodies.size(); ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        std::signal(SIGTERM, SIG_DFL);  // the test program's handler is not the rank's
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, nullptr);
        SupervisorLink link(static_cast<int>(rank));
        ++*connected;
        while (*connected < bodies.size()) sched_yield();  // nobody fails before all are there
        const int status = bodies[rank](link);
        link.report(status);
        _exit(status);
      }
      pids_.push_back(pid);
    }
    unsetenv(kSupervisorVariable);
  }
  ~Ranks() {
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  }

 private:
  std::vector<pid_t> pids_;
};

int ends_well(SupervisorLink&) { return 0; }
int waits_for_a_signal(SupervisorLink&) {
  pause();
  return 0;
}

TEST_CASE("a rank does not wait for somebody who has only taken the name of its starter") {
  const AbstractAddress name("cxtrain-test-" + std::to_string(getpid()));
  const FileDescriptor squatter(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(squatter.get(), name.get(), name.size()) == 0);
  REQUIRE(listen(squatter.get(), 0) == 0);
  std::vector<FileDescriptor> queue;  // until it is full
  for (int error = 0; error == 0;) {
    queue.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    error = connect(queue.back().get(), name.get(), name.size()) == 0 ? 0 : errno;
  }
  const EnvironmentVariable starter(kStarterVariable, "cxtrain-test-" + std::to_string(getpid()));
  SupervisorLink link(0);
  link.report(0);
}

TEST_CASE("a supervisor returns 0 when all ranks end well") {
  SignalInbox signals;
  Supervisor supervisor(3);
  const Ranks ranks(supervisor, {ends_well, ends_well, ends_well});
  CHECK(supervisor.watch(signals) == 0);
}

TEST_CASE("a supervisor returns the status of the rank that failed, and ends those that do not follow") {
  SignalInbox signals;
  Supervisor supervisor(3, {.end = std::chrono::milliseconds(100)});
  const Ranks ranks(supervisor, {waits_for_a_signal, [](SupervisorLink&) { return 7; }, waits_for_a_signal});
  CHECK(supervisor.watch(signals) == 7);
}

TEST_CASE("a supervisor notices a rank that dies without a word") {
  SignalInbox signals;
  Supervisor supervisor(2, {.end = std::chrono::milliseconds(100)});
  const Ranks ranks(supervisor, {waits_for_a_signal, [](SupervisorLink&) { return raise(SIGKILL); }});
  CHECK(supervisor.watch(signals) == 1);
}

TEST_CASE("a supervisor passes signals on, and its status tells which ended the ranks") {
  SignalInbox signals;
  Supervisor supervisor(2);
  const pid_t self = getpid();
  const Ranks ranks(supervisor, {waits_for_a_signal, [self](SupervisorLink&) {
                                   kill(self, SIGTERM);
                                   return pause();
                                 }});
  CHECK(supervisor.watch(signals) == 128 + SIGTERM);
}

TEST_CASE("a signal that comes before the ranks have connected reaches them when they do") {
  SignalInbox signals;
  Supervisor supervisor(2);
  kill(getpid(), SIGTERM);
  const Ranks ranks(supervisor, {waits_for_a_signal, waits_for_a_signal});
  CHECK(supervisor.watch(signals) == 128 + SIGTERM);
}

TEST_CASE("ranks that connect after a signal that ends them are asked before they are killed") {
  SignalInbox signals;
  Supervisor supervisor(2, {.end = std::chrono::seconds(5)});
  kill(getpid(), SIGINT);
  static volatile std::sig_atomic_t asked = 0;
  const auto before = std::signal(SIGINT, [](int) { asked = 1; });
  int answers[2];
  REQUIRE(pipe(answers) == 0);
  const auto answers_when_asked = [&](SupervisorLink&) {
    while (asked == 0) sched_yield();
    return write(answers[1], "x", 1) == 1 ? 0 : 1;
  };
  {
    const Ranks ranks(supervisor, {answers_when_asked, answers_when_asked});
    CHECK(supervisor.watch(signals) == 128 + SIGINT);
  }
  std::signal(SIGINT, before);
  close(answers[1]);
  char words[3];
  CHECK(read(answers[0], words, sizeof words) == 2);
  close(answers[0]);
}

TEST_CASE("a warning of the batch system reaches ranks that connect later, too") {
  SignalInbox signals;
  Supervisor supervisor(2);
  kill(getpid(), SIGUSR1);
  static volatile std::sig_atomic_t heard = 0;
  const auto before = std::signal(SIGUSR1, [](int) { heard = 1; });
  const auto hears = [](SupervisorLink&) {
    while (heard == 0) sched_yield();
    return 0;
  };
  {
    const Ranks ranks(supervisor, {hears, hears});
    CHECK(supervisor.watch(signals) == 0);
  }
  std::signal(SIGUSR1, before);
}

TEST_CASE("a signal ends a supervisor whose ranks never connect") {
  SignalInbox signals;
  Supervisor supervisor(2, {.late = std::chrono::milliseconds(100)});
  kill(getpid(), SIGINT);
  CHECK(supervisor.watch(signals) == 128 + SIGINT);
}

TEST_CASE("a supervisor ends when the process that starts the ranks cannot, or dies") {
  const std::string words = GENERATE("no slots left", "");
  SignalInbox signals;
  Supervisor supervisor(2, {.late = std::chrono::milliseconds(100)});
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(write(ends[1], words.data(), words.size()) == static_cast<ssize_t>(words.size()));
  close(ends[1]);
  CHECK(supervisor.watch(signals, ends[0]) == 1);
  close(ends[0]);
}

TEST_CASE("a supervisor does not wait for ever for ranks that never start") {
  SignalInbox signals;
  Supervisor supervisor(2, {.start = std::chrono::milliseconds(300)});
  const Ranks ranks(supervisor, {waits_for_a_signal});
  CHECK(supervisor.watch(signals) == 1);
}

}  // namespace
}  // namespace cxtrain::test
