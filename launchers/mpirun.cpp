#include "launchers/mpirun.h"

#include <cstdlib>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

/// Set for mpirun's children. One that finds it, and is alone all the same, would start mpirun for ever.
constexpr const char* kStartedByUs = "CXTRAIN_STARTED_BY_MPIRUN";

}  // namespace

std::vector<std::string> mpirun_command(int ranks, int per_node, const Program& program) {
  std::vector<std::string> command{"mpirun", "-np", std::to_string(ranks)};
  if (per_node > 0) command.insert(command.end(), {"--map-by", "ppr:" + std::to_string(per_node) + ":node"});
  command.push_back(program.path);
  command.insert(command.end(), program.arguments.begin(), program.arguments.end());
  return command;
}

void become_mpirun(int ranks, int per_node, const Program& program) {
  if (std::getenv(kStartedByUs) != nullptr) {
    throw CommunicationError(
        "the mpirun in $PATH started this process, but not as a rank that the MPI of this program knows of: "
        "it belongs to another MPI; put the right one first in $PATH, or start the ranks with it yourself");
  }
  prepare_environment(per_node > 0 ? per_node : ranks);
  // Between ranks of one machine nothing goes over TCP, whose IPv6 addresses Open MPI 5 takes for errors on
  // machines that have both kinds (open-mpi/ompi#14079), and prints a line for each rank.
  if (per_node == 0) setenv("OMPI_MCA_btl_tcp_disable_family", "6", /*overwrite=*/0);
  setenv(kStartedByUs, "1", /*overwrite=*/1);
  try {
    become_command(mpirun_command(ranks, per_node, program));
  } catch (const Error& error) {
    throw CommunicationError(
        error.what() + std::string("; put the one of the MPI that this program was built with into $PATH"));
  }
}

}  // namespace cxtrain
