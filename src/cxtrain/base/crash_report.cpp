#include "cxtrain/base/crash_report.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/core/demangle.hpp>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>
#include <thread>

#include "cxtrain/base/process.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

struct Crash {
  int signal;
  std::string_view name;
};
constexpr std::array kCrashes{
    Crash{SIGSEGV, "SIGSEGV, a wrong address"}, Crash{SIGBUS, "SIGBUS, memory that is not there"},
    Crash{SIGFPE, "SIGFPE, wrong arithmetic"}, Crash{SIGILL, "SIGILL, a wrong instruction"},
    Crash{SIGABRT, "SIGABRT, an assertion or an uncaught exception"}};
constexpr int kMaxFrames = 100;
/// The report waits no longer for the loader's lock, which a thread that waits for this one may hold.
constexpr unsigned kMaxSeconds = 10;

/// Text in memory of its own: a handler may not allocate.
class HandlerText {
 public:
  HandlerText& operator<<(std::string_view text) {
    size_ += text.copy(bytes_.data() + size_, bytes_.size() - size_);
    return *this;
  }
  HandlerText& operator<<(std::int64_t number) { return add(number, 10); }
  HandlerText& add_address(std::uintptr_t address) { return (*this << "0x").add(address, 16); }
  void write_to(int file) const { static_cast<void>(!write(file, bytes_.data(), size_)); }
  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  template <class Integer>
  HandlerText& add(Integer number, int base) {
    char* const end = bytes_.data() + bytes_.size();
    const auto [last, error] = std::to_chars(bytes_.data() + size_, end, number, base);
    if (error == std::errc()) size_ = static_cast<std::size_t>(last - bytes_.data());
    return *this;
  }

  std::array<char, std::size_t{2} * PATH_MAX> bytes_{};
  std::size_t size_ = 0;
};

/// What the handler knows; written while no crash is reported.
struct CrashReporter {
  pid_t process = 0;
  HandlerText who;                    ///< "rank 3 on n2"
  std::array<char, PATH_MAX> path{};  ///< of `file`
  std::atomic<int> file{-1};
  std::atomic<bool> at_work{false};
  alignas(16) std::array<char, std::size_t{256} << 10> stack{};
};
CrashReporter crash_reporter;

/// A word of this process; empty where there is none at that address, which costs no second crash.
std::optional<std::uintptr_t> read_word(std::uintptr_t address) {
  std::uintptr_t word = 0;
  // The address comes from a register.
  void* const place = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  const iovec here{&word, sizeof word}, there{place, sizeof word};
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != static_cast<ssize_t>(sizeof word)) return {};
  return word;
}

/// Where a thread was, as the handler's frame has kept it: its stack is read from there on.
struct Place {
  std::uintptr_t instruction = 0;  ///< 0 on processors that are not known here
  std::uintptr_t stack = 0;
};

#if defined(__x86_64__)
Place place_in(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return {static_cast<std::uintptr_t>(registers[REG_RIP]), static_cast<std::uintptr_t>(registers[REG_RSP])};
}

void put_place(void* context, Place place) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RIP] = static_cast<greg_t>(place.instruction);
  registers[REG_RSP] = static_cast<greg_t>(place.stack);
}

/// Where the function that has just been called returns to: within the call that led to it. Where the
/// stack cannot be read: the highest address, where there is no memory, either.
Place caller_of(const void*, Place place) {
  return {read_word(place.stack).value_or(0) - 1, place.stack + sizeof(std::uintptr_t)};
}
#elif defined(__aarch64__)
Place place_in(const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
  return {registers.pc, registers.sp};
}

void put_place(void* context, Place place) {
  static_cast<ucontext_t*>(context)->uc_mcontext.pc = place.instruction;
}

Place caller_of(const void* context, Place place) {
  return {static_cast<const ucontext_t*>(context)->uc_mcontext.regs[30] - 4, place.stack};
}
#else
Place place_in(const void*) { return {}; }
void put_place(void*, Place) {}
Place caller_of(const void*, Place place) { return place; }
#endif

void write_report(int signal, const siginfo_t& info, void* context) {
  const Place place = place_in(context);
  const int file = crash_reporter.file;
  const bool main_thread = syscall(SYS_gettid) == getpid();
  std::array<char, 17> thread{};
  prctl(PR_GET_NAME, thread.data());
  HandlerText text;
  text << "error: " << crash_reporter.who.text();
  if (const std::int64_t step = CurrentStep::get(); step >= 0) text << ", step " << step;
  text << ": crashed by " << std::ranges::find(kCrashes, signal, &Crash::signal)->name;
  if (info.si_code > 0) {  // and nobody has sent it
    (text << " (").add_address(reinterpret_cast<std::uintptr_t>(info.si_addr)) << ", by the instruction at ";
    text.add_address(place.instruction) << ")";
    // No stack can be read from what is no code: from its caller on, then, or none where that is none either.
    if (signal == SIGSEGV && reinterpret_cast<std::uintptr_t>(info.si_addr) == place.instruction) {
      const Place caller = caller_of(context, place);
      put_place(context, read_word(caller.instruction) ? caller : Place{0, place.stack});
    }
  }
  text << ", in ";
  if (main_thread) {
    text << "the main thread";
  } else {
    text << "the thread " << thread.data();
  }
  HandlerText line = text;
  if (file >= 0) line << "; its stack is in " << crash_reporter.path.data();
  line << "\n";
  line.write_to(STDERR_FILENO);
  text << "\n";
  if (file >= 0) text.write_to(file);
  std::array<void*, kMaxFrames> frames{};
  const int count = backtrace(frames.data(), kMaxFrames);
  backtrace_symbols_fd(frames.data(), count, file >= 0 ? file : STDERR_FILENO);
  put_place(context, place);
}

void report_crash(int signal, siginfo_t* info, void* context) {
  if (getpid() == crash_reporter.process) {
    if (crash_reporter.at_work.exchange(true)) {
      // The thread that crashed first ends the process.
      const timespec a_while{kMaxSeconds, 0};
      nanosleep(&a_while, nullptr);
    } else {
      std::signal(SIGALRM, SIG_DFL);
      alarm(kMaxSeconds);
      write_report(signal, *info, context);
      alarm(0);
    }
  }
  std::signal(signal, SIG_DFL);
  // What the processor has raised it raises again, with the core that belongs to it.
  if (info->si_code <= 0) raise(signal);
}

/// UCX, which Open MPI 5 may bring along, handles crashes as well; its report has no rank, no step, and is on
/// stderr alone, so that signal is not left to it.
bool is_handled_by_others(const struct sigaction& action) {
  if ((action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL) return false;
  Dl_info library{};
  if (dladdr(reinterpret_cast<void*>(action.sa_sigaction), &library) == 0 || library.dli_fname == nullptr)
    return true;
  return std::string_view(library.dli_fname).find("/libucs.so") == std::string_view::npos;
}

constexpr int kMaxFramesOfThread = 100;
constexpr int kHandlersFrames = 2;  ///< the handler's own, and the one that the kernel puts there

/// The stack that the handler writes in the main thread, and the number of its frames; -1: the handler has
/// not run yet.
std::array<void*, kMaxFramesOfThread> thread_frames;
std::atomic<int> thread_frames_taken{-1};

void take_frames(int) {
  const int error = errno;
  thread_frames_taken = backtrace(thread_frames.data(), kMaxFramesOfThread);
  errno = error;
}

std::string describe_frame(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return formatted("%p", address);
  const auto place = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase);
  return (info.dli_sname != nullptr ? boost::core::demangle(info.dli_sname) + " in " : "") +
         formatted("%s +0x%tx", info.dli_fname, place);
}

}  // namespace

void report_crashes(int rank) {
  std::array<void*, 2> frames{};
  backtrace(frames.data(), 2);  // the first call loads a library
  crash_reporter.process = getpid();
  crash_reporter.who = HandlerText();
  crash_reporter.who << "rank " << rank << " on " << hostname();
  stack_t before{};
  if (sigaltstack(nullptr, &before) == 0 && (before.ss_flags & SS_DISABLE) != 0) {
    stack_t own{};
    own.ss_sp = crash_reporter.stack.data();
    own.ss_size = crash_reporter.stack.size();
    sigaltstack(&own, nullptr);
  }
  for (const Crash& crash : kCrashes) {
    struct sigaction action {};
    sigaction(crash.signal, nullptr, &action);
    if (is_handled_by_others(action)) continue;
    action = {};
    action.sa_sigaction = report_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(crash.signal, &action, nullptr);
  }
}

void report_crashes_to(const std::string& file) {
  const int next = file.empty() || file.size() >= crash_reporter.path.size()
                       ? -1
                       : open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const int before = crash_reporter.file.exchange(-1);
  if (before >= 0) close(before);
  if (next < 0) return;
  crash_reporter.path[file.copy(crash_reporter.path.data(), crash_reporter.path.size() - 1)] = '\0';
  crash_reporter.file = next;
}

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
