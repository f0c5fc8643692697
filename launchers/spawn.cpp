#include "launchers/spawn.h"

#include <fcntl.h>
#include <mpi.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/cluster/world.h"
#include "launchers/supervisor.h"

namespace cxtrain {
namespace {

/// Waits for nobody once the ranks run: their own world is independent of this process.
void spawn(int ranks, const Program& program) {
  std::vector<char*> argv = argument_vector(program.arguments);
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  // Inside an allocation of several nodes MPI would fill them; this launcher is for one. It counts this
  // process as well.
  MPI_Info_set(info, "host", (hostname() + ":" + std::to_string(ranks + 1)).c_str());
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm children = MPI_COMM_NULL;
  const int status = MPI_Comm_spawn(program.path.c_str(), argv.data(), ranks, info, 0, MPI_COMM_SELF,
                                    &children, MPI_ERRCODES_IGNORE);
  MPI_Info_free(&info);
  check_mpi(status, "MPI_Comm_spawn");
}

/// The process that starts the ranks, and lives until the supervisor lets go of it.
class Spawner {
 public:
  Spawner(int ranks, const Program& program) {
    std::array<int, 2> words{}, life{};
    if (pipe2(words.data(), O_CLOEXEC) != 0 || pipe2(life.data(), O_CLOEXEC) != 0) fail("pipe2");
    words_ = FileDescriptor(words[0]);
    life_ = FileDescriptor(life[1]);
    const FileDescriptor says(words[1]), ends(life[0]);
    process_ = fork();
    if (process_ < 0) fail("fork");
    if (process_ == 0) run(ranks, program, says.get(), ends.get());
  }
  ~Spawner() {
    life_.reset();
    // MPI's end waits for what the ranks' daemon has to say, which may be nothing.
    for (int wait = 0; wait < 20; ++wait) {
      if (waitpid(process_, nullptr, WNOHANG) != 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  int descriptor() const noexcept { return words_.get(); }

 private:
  [[noreturn]] static void fail(const char* call) {
    throw CommunicationError(std::string("cannot start ranks: ") + call + ": " + std::strerror(errno),
                             MessageCode::launch_failed);
  }

  [[noreturn]] void run(int ranks, const Program& program, int says, int ends) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    life_.reset();  // the supervisor's end, or this process would wait for itself
    try {
      Watchdog unused(kNever, [](Watchdog::Cause, const char*, double) {});
      const MpiSession session(unused);
      spawn(ranks, program);
      char nothing = 0;
      while (read(ends, &nothing, 1) < 0 && errno == EINTR) {
      }
    } catch (const std::exception& error) {
      const std::string text = printed(error);
      static_cast<void>(write(says, text.data(), text.size()));
      _exit(static_cast<int>(ExitCode::failure));
    }
    _exit(0);
  }

  static constexpr double kNever = 1e18;  ///< the supervisor looks at the clock
  FileDescriptor words_, life_;
  pid_t process_ = -1;
};

}  // namespace

int spawn_ranks(int ranks, const Program& program, double timeout_seconds) {
  // Before MPI starts its threads, which would get the signals otherwise. Spawned ranks start with none
  // blocked.
  SignalInbox signals;
  Supervisor::Deadlines deadlines;
  const double most = std::chrono::duration<double>(deadlines.start).count();
  deadlines.start =
      std::chrono::milliseconds(static_cast<std::int64_t>(1000 * std::min(most, timeout_seconds)));
  Supervisor supervisor(ranks, deadlines);
  prepare_environment(ranks);
  // All are on this machine, which may have no other interface; MPI leaves this one out by itself.
  if (std::getenv("OMPI_MCA_btl_tcp_if_exclude") == nullptr)
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", /*overwrite=*/0);
  setenv(kSupervisorVariable, supervisor.address().c_str(), /*overwrite=*/1);
  const Spawner spawner(ranks, program);
  log_info("spawn: this process (" + std::to_string(getpid()) + ") watches over " + std::to_string(ranks) +
           " ranks");
  return supervisor.watch(signals, spawner.descriptor());
}

}  // namespace cxtrain
