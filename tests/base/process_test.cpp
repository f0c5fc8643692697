#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "cxtrain/base/error.h"
#include "cxtrain/base/process.h"
#include "cxtrain/base/stop_signals.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

/// The exit status of a child that does this; 128 + the signal that ended it.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ, SIGHUP, SIGUSR1, SIGUSR2})
      std::signal(signal, SIG_DFL);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("closed standard descriptors do not become files of the program") {
  const int first_file = in_child([] {
    for (const int descriptor : {0, 1, 2}) close(descriptor);
    set_up_process();
    return open("/dev/null", O_RDONLY);
  });
  CHECK(first_file > 2);
}

TEST_CASE("a write to a reader that is gone, or beyond the limit of a file, is an error and no end") {
  CHECK(in_child([] {
          set_up_process();
          int ends[2];
          if (pipe(ends) != 0) return 1;
          close(ends[0]);
          return write(ends[1], "x", 1) < 0 && errno == EPIPE ? 0 : 2;
        }) == 0);
  const TempDir dir;
  CHECK(in_child([&] {
          set_up_process();
          const rlimit limit{1, 1};
          setrlimit(RLIMIT_FSIZE, &limit);
          const int file = open(dir.file("f").c_str(), O_WRONLY | O_CREAT, 0666);
          return write(file, "x", 1) == 1 && write(file, "x", 1) < 0 && errno == EFBIG ? 0 : 2;
        }) == 0);
}

TEST_CASE("the first signal is noted, the second ends the process with its status") {
  const int signal = GENERATE(SIGINT, SIGTERM);
  CHECK(in_child([signal] {
          const StopSignals signals;
          raise(signal);
          return StopSignals::received() == signal ? 7 : 1;
        }) == 7);
  CHECK(in_child([signal] {
          const StopSignals signals;
          raise(signal);
          raise(SIGINT);
          return 7;
        }) == 128 + SIGINT);
  CHECK(in_child([signal] {
          { const StopSignals signals; }
          raise(signal);  // back to what it was: the end
          return 7;
        }) == 128 + signal);
}

TEST_CASE("a SIGTERM that comes twice at once is one, and another one later ends the process") {
  CHECK(in_child([] {
          const StopSignals signals;
          for (int i = 0; i < 3; ++i) raise(SIGTERM);
          return StopSignals::received() == SIGTERM ? 7 : 1;
        }) == 7);
  CHECK(in_child([] {
          const StopSignals signals;
          raise(SIGTERM);
          std::this_thread::sleep_for(std::chrono::milliseconds(2100));
          raise(SIGTERM);
          return 7;
        }) == 128 + SIGTERM);
}

TEST_CASE("a signal that the parent has had ignored stays ignored") {
  CHECK(in_child([] {
          std::signal(SIGINT, SIG_IGN);  // as for a job in the background of a script
          const StopSignals signals;
          raise(SIGINT);
          return StopSignals::received() == 0 ? 7 : 1;
        }) == 7);
}

TEST_CASE("the signal of a batch system is noted, however often it comes, and ends nothing") {
  const auto child = [](int wanted, int before, int during) {
    return in_child([=] {
      set_up_process();
      if (before != 0) raise(before);
      const StopSignals signals(wanted);
      for (int i = 0; i < 3 && during != 0; ++i) raise(during);
      return (StopSignals::asked_to_requeue() ? 7 : 3) + StopSignals::received();
    });
  };
  CHECK(child(SIGUSR1, 0, SIGUSR1) == 7);
  CHECK(child(SIGUSR2, 0, SIGUSR2) == 7);
  CHECK(child(SIGHUP, 0, SIGHUP) == 7);
  CHECK(child(SIGUSR1, 0, 0) == 3);
  // Before a run opens it is kept; another one than the run wants is nothing to it.
  CHECK(child(SIGUSR1, SIGUSR1, 0) == 7);
  CHECK(child(SIGUSR2, SIGUSR1, SIGUSR1) == 3);
  CHECK(child(0, SIGUSR1, SIGUSR1) == 3);
  // It does not make a SIGTERM the second signal.
  CHECK(in_child([] {
          const StopSignals signals(SIGUSR1);
          raise(SIGUSR1);
          raise(SIGTERM);
          return StopSignals::asked_to_requeue() && StopSignals::received() == SIGTERM ? 7 : 1;
        }) == 7);
  CHECK(in_child([] {
          std::signal(SIGHUP, SIG_IGN);  // nohup
          const StopSignals signals(SIGHUP);
          raise(SIGHUP);
          return StopSignals::asked_to_requeue() ? 1 : 7;
        }) == 7);
}

TEST_CASE("messages of the libraries are put in words, without frames") {
  const std::runtime_error torch("sizes differ\nException raised from f at g.cpp:3\nframe #0: h");
  CHECK(message_of(torch) == "sizes differ");
  CHECK_THAT(message_of(std::bad_alloc()), contains("memory"));
  CHECK_THAT(message_of(std::length_error("vector::reserve")), contains("size"));
  CHECK_THAT(message_of(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))),
             contains("thread"));
  const std::filesystem::filesystem_error path("status", "/a/b",
                                               std::make_error_code(std::errc::filename_too_long));
  CHECK(message_of(path) == "'/a/b': File name too long");
  CHECK(code_of(path) == ExitCode::refused);
  CHECK(code_of(torch) == ExitCode::failure);
  CHECK(code_of(DataError("x")) == ExitCode::refused);
}

}  // namespace
}  // namespace cxtrain::test
