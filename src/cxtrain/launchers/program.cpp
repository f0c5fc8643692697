#include "cxtrain/launchers/program.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cxtrain/base/error.h"
#include "cxtrain/device/cores.h"

namespace cxtrain {

Program this_program(int argc, const char* const* argv) {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed)
    throw CommunicationError("cannot find this program's file to start it again: " + failed.message());
  return {path.string(), {argv + (argc > 0 ? 1 : 0), argv + argc}};
}

void prepare_environment(int ranks) {
  const auto set = [](const char* name, const char* value) { setenv(name, value, /*overwrite=*/1); };
  if (geteuid() == 0) {
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                             "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
      set(name, "1");
    }
  }
  if (ranks > cores_of_this_process()) {
    set("OMPI_MCA_rmaps_base_oversubscribe", "1");
    set("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    // mpirun sees to it; for ranks that were spawned nobody does, and each step waits for a scheduler's
    // slice.
    set("OMPI_MCA_mpi_yield_when_idle", "1");
  }
}

}  // namespace cxtrain
