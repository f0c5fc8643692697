#include "launchers/launcher.h"

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
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/device/resources.h"
#include "launchers/mpirun.h"
#include "launchers/signal_inbox.h"
#include "launchers/slurm.h"
#include "launchers/supervisor.h"

namespace cxtrain {
namespace {

/// By these a user binds ranks: Open MPI 4's and 5's.
constexpr std::array kBinding{"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_rmaps_base_mapping_policy",
                              "OMPI_MCA_rmaps_base_cpus_per_proc", "OMPI_MCA_rmaps_base_cpus_per_rank",
                              "PRTE_MCA_hwloc_default_binding_policy"};
/// Open MPI 5's mapping, `[POLICY][:QUALIFIER...]`.
constexpr const char* kMapping5 = "PRTE_MCA_rmaps_default_mapping_policy";

std::string mapping_of_open_mpi_5() {
  const char* const mapping = std::getenv(kMapping5);
  return mapping == nullptr ? std::string() : mapping;
}

/// Whether the environment says how ranks are bound. A mapping may say how many cores a rank gets
/// (`slot:PE=4`), and then binds; qualifiers alone (`:oversubscribe`) do not.
bool user_binds_ranks() {
  const std::string mapping = mapping_of_open_mpi_5();
  return (!mapping.empty() && !mapping.starts_with(':')) ||
         std::ranges::any_of(kBinding, [](const char* name) { return std::getenv(name) != nullptr; });
}

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

/// Starts `ranks` ranks of the program on this node with MPI_Comm_spawn, and watches over them: forwards
/// signals, and returns the job's exit status once all have ended. Their output comes out here. This process
/// trains nothing; a child of it talks to MPI, since a call of MPI's that waits for a rank that has died on
/// its way up never returns. Ranks that have not started within `timeout_seconds`, or a minute, end the job.
/// Throws CommunicationError when this process cannot watch.
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

}  // namespace

int start_ranks(const Plan& plan, const Program& program, double timeout_seconds) {
  if (plan.launcher == "srun") become_step(plan, program);
  if (plan.launcher == "subprocess") return run_mpirun(plan.world_size, program);
  if (plan.launcher == "spawn") return spawn_ranks(plan.world_size, program, timeout_seconds);
  throw CommunicationError("the launcher '" + plan.launcher + "' of this plan starts no ranks",
                           MessageCode::launch_failed);
}

std::vector<std::string> words_of(const Program& program) {
  std::vector<std::string> words{program.path};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  return words;
}

Program this_program(int argc, const char* const* argv) {
  const std::string path = program_path();
  if (path.empty())
    throw CommunicationError("cannot find this program's file to start it again: is /proc there?",
                             MessageCode::launch_failed);
  return {path, {argv + (argc > 0 ? 1 : 0), argv + argc}};
}

void prepare_environment(int ranks) {
  if (!user_binds_ranks()) {
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", /*overwrite=*/1);
    setenv("PRTE_MCA_hwloc_default_binding_policy", "none", /*overwrite=*/1);
  }
  const auto set = [](const char* name, const char* value) { setenv(name, value, /*overwrite=*/1); };
  if (geteuid() == 0) {
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                             "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
      set(name, "1");
    }
  }
  if (ranks > cores_of_this_process()) {
    set("OMPI_MCA_rmaps_base_oversubscribe", "1");
    const std::string mapping = mapping_of_open_mpi_5();
    if (mapping.find("oversubscribe") == std::string::npos)
      set(kMapping5, (mapping + ":oversubscribe").c_str());
    // mpirun sees to it; for ranks that were spawned nobody does, and each step waits for a scheduler's
    // slice.
    set("OMPI_MCA_mpi_yield_when_idle", "1");
  }
}

}  // namespace cxtrain
