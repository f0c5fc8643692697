#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/device/hardware.h"

/// `cxtrain_mpi doctor`: whether a training with these options would do well here (cxtrain/doctor/).
namespace cxtrain {

/// The subcommand.
inline constexpr const char* kDoctor = "doctor";
/// How long its ranks wait for each other: whoever asks for a doctor wants to know it soon.
inline constexpr double kDoctorSeconds = 60;

/// What a training is known to need before it begins.
struct DoctorSubject {
  const Options& options;
  const Plan& plan;  ///< with its errors, which are found, too
  const Hardware& hardware;
  /// The fingerprint of the training data (trainer/data_fingerprint.h); empty: there is none. What it throws
  /// is found.
  std::function<std::string()> data_fingerprint;
};

/// Looks at this world, and on rank 0 writes what is found to `out`: with --json as JSON, with --all also
/// what is in order. Returns the exit status on every rank: 0, 1 where there are warnings, 2 where there are
/// errors. Collective.
int run_doctor(World& world, const DoctorSubject& examined, Filesystem& files, std::ostream& out);

}  // namespace cxtrain
