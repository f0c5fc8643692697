#include "launchers/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "cxtrain/base/error.h"
#include "cxtrain/base/process.h"
#include "cxtrain/device/resources.h"
#include "launchers/mpirun.h"
#include "launchers/slurm.h"
#include "launchers/spawn.h"

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
         std::any_of(kBinding.begin(), kBinding.end(),
                     [](const char* name) { return std::getenv(name) != nullptr; });
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
