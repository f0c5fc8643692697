#include "cxtrain/launchers/spawn_launcher.h"

#include <mpi.h>

#include <cstdlib>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/hostname.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/launchers/signal_inbox.h"
#include "cxtrain/launchers/supervisor.h"

namespace cxtrain {
namespace {

/// Waits for nobody: the ranks' own world is independent of this process from here on.
void spawn(int ranks, const Program& program) {
  std::vector<char*> argv;
  for (const std::string& argument : program.arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
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

}  // namespace

int spawn_ranks(int ranks, const Program& program) {
  // Before MPI starts its threads, which would get the signals otherwise. Spawned ranks start with none
  // blocked.
  SignalInbox signals;
  Supervisor supervisor(ranks);
  prepare_environment(ranks);
  setenv(kSupervisorVariable, supervisor.address().c_str(), /*overwrite=*/1);
  const MpiSession session;
  spawn(ranks, program);
  log_info("ddp_spawn: this process (" + std::to_string(getpid()) + ") watches over " +
           std::to_string(ranks) + " ranks");
  return supervisor.watch(signals);
}

}  // namespace cxtrain
