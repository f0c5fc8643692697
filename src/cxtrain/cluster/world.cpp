#include "cxtrain/cluster/world.h"

#include <cstdlib>

#include "cxtrain/base/error.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/cluster/solo_world.h"

namespace cxtrain {
namespace {

WorldFacts solo_facts() {
  WorldFacts facts;
  facts.hostname = hostname();
  return facts;
}

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

int number_in(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

std::string_view to_string(LaunchedBy launcher) {
  switch (launcher) {
    case LaunchedBy::mpirun:
      return "mpirun";
    case LaunchedBy::srun:
      return "srun";
    case LaunchedBy::spawn:
      return "spawn";
    case LaunchedBy::alone:
      break;
  }
  return "alone";
}

SoloWorld::SoloWorld() : World(solo_facts()) {}

LaunchedBy detect_launcher() {
  if (is_set(kSupervisorVariable) && is_set("OMPI_COMM_WORLD_SIZE")) return LaunchedBy::spawn;
  // Open MPI's mpirun sets the first, MPICH's the second. srun sets its own beside PMIx's, but inside
  // `sbatch` the SLURM_* ones describe the batch step and say nothing about this process.
  if (is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMI_SIZE")) return LaunchedBy::mpirun;
  if (is_set("PMIX_RANK")) return is_set("SLURM_STEP_ID") ? LaunchedBy::srun : LaunchedBy::mpirun;
  return LaunchedBy::alone;
}

std::unique_ptr<World> make_world(double timeout_seconds) {
  if (detect_launcher() == LaunchedBy::alone) {
    if (const int tasks = number_in("SLURM_STEP_NUM_TASKS"); tasks > 1) {
      throw CommunicationError(
          "Slurm started " + std::to_string(tasks) +
          " tasks that do not know of each other (each "
          "would train alone); use `srun --mpi=pmix`, or `mpirun` inside the allocation");
    }
    return std::make_unique<SoloWorld>();
  }
  auto world = MpiWorld::start(timeout_seconds);
  if (const int tasks = number_in("SLURM_STEP_NUM_TASKS");
      world->facts().launched_by == LaunchedBy::srun && world->size() == 1 && tasks > 1) {
    throw CommunicationError("srun started " + std::to_string(tasks) +
                             " tasks but MPI sees a world of one; this MPI "
                             "was built without PMIx support for Slurm: use `mpirun` inside the allocation");
  }
  return world;
}

}  // namespace cxtrain
