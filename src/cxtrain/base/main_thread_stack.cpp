#include "cxtrain/base/main_thread_stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <sstream>
#include <thread>

#include "cxtrain/base/demangled.h"

namespace cxtrain {
namespace {

constexpr int kMaxFramesOfThread = 100;
constexpr int kHandlersFrames = 2;  ///< the handler's own, and the one that the kernel puts there

/// What the interrupted thread writes; -1: it has not been there.
std::array<void*, kMaxFramesOfThread> thread_frames;
std::atomic<int> thread_frames_taken{-1};

void take_frames(int) {
  const int error = errno;
  thread_frames_taken = backtrace(thread_frames.data(), kMaxFramesOfThread);
  errno = error;
}

std::string describe_frame(void* address) {
  std::ostringstream line;
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    line << address;
    return line.str();
  }
  if (info.dli_sname != nullptr) line << demangled(info.dli_sname) << " in ";
  line << info.dli_fname << " +0x" << std::hex
       << reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  return line.str();
}

}  // namespace

std::string stack_of_main_thread(std::chrono::milliseconds patience) {
  backtrace(thread_frames.data(), 1);  // the first call loads a library, which no handler may do
  thread_frames_taken = -1;
  struct sigaction action {
  }, before{};
  action.sa_handler = take_frames;
  action.sa_flags = SA_RESTART;
  sigaction(SIGURG, &action, &before);
  syscall(SYS_tgkill, getpid(), getpid(), SIGURG);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (thread_frames_taken < 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const int count = thread_frames_taken;
  // A thread that answers later still finds a handler, or what was there before, which ignored it.
  sigaction(SIGURG, &before, nullptr);
  if (count < 0) return "the main thread does not answer";
  std::string text = "the main thread is here:";
  for (int i = kHandlersFrames; i < count; ++i)
    text += "\n  " + describe_frame(thread_frames[static_cast<std::size_t>(i)]);
  return text;
}

}  // namespace cxtrain
