#pragma once

#include <string>

#include "cxtrain/cluster/world.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/device/nvml.h"
#include "cxtrain/doctor/facts.h"

/// How the facts of a running world come together.
namespace cxtrain::doctor {

/// What a rank's caller knows and this room cannot: each rank fills in its own.
struct DoctorInputs {
  Plan plan;                        ///< resolved for this world; the default one where there is none
  Hardware hardware;                ///< of all nodes (`gather_hardware`)
  JobFacts job;                     ///< the facts that the caller has; `gather` adds its own
  RankFacts rank;                   ///< the facts that the caller has of this rank; `gather` adds its own
  std::string output_folder = ".";  ///< default_root_dir; need not exist
  std::string data_path;            ///< empty: the data is not in files
  const char* nvml = kNvmlLibrary;  ///< the library that is asked for the GPUs' health
};

/// Every rank's facts, every node's, and measurements, at the root; the others get an empty recording.
/// Collective; takes less than 3 s where the disk, MPI and the GPUs' driver answer. Writes files into the
/// output folder (or the nearest one above that exists) and removes them. Throws only what the world's
/// collectives throw: what a machine does not tell is not known.
Recording gather(World& world, const DoctorInputs& own);

}  // namespace cxtrain::doctor
