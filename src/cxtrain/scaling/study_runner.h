#pragma once

#include <iosfwd>
#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/scaling/study.h"

namespace cxtrain {

/// Runs the trainings of a study that have not been measured yet, or have failed, one after the other, each
/// as `program fit` in a process of its own, which starts its ranks. A training writes below `folder`/points,
/// its messages to output.log there. Sets OMP_NUM_THREADS to the study's threads. A training that fails is
/// run once more; then its failure is its measurement. Writes a line for each training to `out`. A signal
/// that ends a process goes to the training, and ends the study after it. Returns 0, or 128 + the signal.
/// Make no threads before: they would get the signals.
int run_study(const Study& study, const std::string& folder, const std::string& program, Filesystem& files,
              std::ostream& out);

}  // namespace cxtrain
