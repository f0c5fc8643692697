#include "launchers/mpirun.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

/// Set for mpirun's children. One that finds it, and is alone all the same, would start mpirun for ever.
constexpr const char* kStartedByUs = "CXTRAIN_STARTED_BY_MPIRUN";

}  // namespace

std::vector<std::string> mpirun_command(int ranks, const Program& program) {
  std::vector<std::string> command{"mpirun", "-np", std::to_string(ranks), program.path};
  command.insert(command.end(), program.arguments.begin(), program.arguments.end());
  return command;
}

void become_mpirun(int ranks, const Program& program) {
  if (std::getenv(kStartedByUs) != nullptr) {
    throw CommunicationError(
        "the mpirun in $PATH started this process, but not as a rank that the MPI of this program knows of: "
        "it belongs to another MPI; put the right one first in $PATH, or start the ranks with it yourself");
  }
  prepare_environment(ranks);
  setenv(kStartedByUs, "1", /*overwrite=*/1);
  const std::vector<std::string> command = mpirun_command(ranks, program);
  const std::vector<char*> argv = argument_vector(command);
  std::cout.flush();
  execvp(argv[0], argv.data());
  throw CommunicationError("cannot start mpirun: " + std::string(std::strerror(errno)) +
                           "; put the one of the MPI that this program was built with into $PATH");
}

}  // namespace cxtrain
