#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/cli/main.h"

namespace cxtrain::test {

struct ForkedResult {
  int status = -1;     ///< exit status; 128 + signal; 124: it was ended at the deadline
  std::string output;  ///< stdout
  std::string errors;  ///< stderr
};

/// All that was written to a file without a name.
inline std::string content_of(const FileDescriptor& file) {
  std::string content(static_cast<std::size_t>(lseek(file.get(), 0, SEEK_END)), '\0');
  if (pread(file.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size()))
    throw std::runtime_error("cannot read what a case wrote");
  return content;
}

/// The program with these arguments, running in a fork of this process, which has LibTorch loaded already: a
/// start costs milliseconds. The caller has no other thread.
class ForkedProgram {
 public:
  explicit ForkedProgram(const std::vector<std::string>& arguments)
      : output_(memfd_create("stdout", 0)), errors_(memfd_create("stderr", 0)) {
    std::cout.flush();
    child_ = fork();
    if (child_ < 0) throw std::runtime_error("cannot fork");
    if (child_ == 0) run(arguments);
    process_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, child_, 0)));
  }

  /// Waits for its end, and makes one after `deadline_seconds`. Called once.
  ForkedResult wait(int deadline_seconds = 60) {
    pollfd ended{process_.get(), POLLIN, 0};
    const bool late = poll(&ended, 1, deadline_seconds * 1000) == 0;
    if (late) kill(-child_, SIGKILL);
    int status = 0;
    waitpid(child_, &status, 0);
    return {late                ? 124
            : WIFEXITED(status) ? WEXITSTATUS(status)
                                : 128 + WTERMSIG(status),
            content_of(output_), content_of(errors_)};
  }

 private:
  [[noreturn]] void run(const std::vector<std::string>& arguments) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    // Catch's handlers would report a crash as the test's.
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGINT}) std::signal(signal, SIG_DFL);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(output_.get(), STDOUT_FILENO);
    dup2(errors_.get(), STDERR_FILENO);
    std::vector<char*> argv{const_cast<char*>("cxtrain_mpi")};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    const int status = run_main(static_cast<int>(argv.size()) - 1, argv.data());
    std::cout.flush();
    std::fflush(nullptr);
    _exit(status);
  }

  FileDescriptor output_, errors_, process_;
  pid_t child_ = -1;
};

inline ForkedResult fork_program(const std::vector<std::string>& arguments) {
  return ForkedProgram(arguments).wait();
}

}  // namespace cxtrain::test
