#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"

/// Submitting a batch script to Slurm, and watching what becomes of it.
namespace cxtrain {

/// Writes the script to `path`, and submits it with further options of sbatch. Returns the job's number.
/// Throws FileError, or Error with sbatch's own words.
std::string submit_script(Filesystem& files, const std::string& path, const std::string& script,
                          const std::vector<std::string>& options = {});

/// Returns whether Slurm has the job run, or will run it. Throws Error with scontrol's own words.
bool goes_on(const std::string& job);

/// Prints what a job writes to `output`, and each state that it goes through, until it has ended. Returns its
/// exit status.
int follow_job(const std::string& job, const std::string& output, std::ostream& out);

}  // namespace cxtrain
