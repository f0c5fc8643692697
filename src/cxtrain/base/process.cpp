#include "cxtrain/base/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <filesystem>
#include <initializer_list>
#include <system_error>

#include "cxtrain/base/stop_signals.h"

namespace cxtrain {
namespace {

std::atomic<std::int64_t> current_step{-1};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "read by signals' handlers");

}  // namespace

void set_up_process() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest free number is this one, since those below it are open.
    // What is written to a closed stdout is lost, which who writes it has to know: /dev/full says so.
    static_cast<void>(open(descriptor == STDOUT_FILENO ? "/dev/full" : "/dev/null", O_RDWR));
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);  // a parent may have left it ignored, and no child could then be waited for
  StopSignals::note_early();
}

std::string program_path() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).string();
}

std::string library_folder() {
  Dl_info self{};
  std::error_code ignored;
  if (dladdr(reinterpret_cast<const void*>(&library_folder), &self) == 0 || self.dli_fname == nullptr)
    return {};
  return std::filesystem::weakly_canonical(self.dli_fname, ignored).parent_path().string();
}

std::string cuda_library_path() { return library_folder() + "/libcxtrain_cuda.so"; }

bool has_cuda_library() {
  std::error_code failed;
  return std::filesystem::exists(cuda_library_path(), failed);
}

std::string hostname() {
  // One more than is written: a name cut short has no end of its own.
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

void CurrentStep::set(std::int64_t step) noexcept { current_step.store(step, std::memory_order_relaxed); }
std::int64_t CurrentStep::get() noexcept { return current_step.load(std::memory_order_relaxed); }

}  // namespace cxtrain
