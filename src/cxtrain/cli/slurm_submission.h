#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/config/options.h"
#include "cxtrain/scaling/study.h"

/// Submitting batch scripts to Slurm, and watching what becomes of them.
namespace cxtrain {

/// Writes the script to `path`, and submits it with further options of sbatch. Returns the job's number.
/// Throws FileError, or Error with sbatch's own words.
std::string submit_script(Filesystem& files, const std::string& path, const std::string& script,
                          const std::vector<std::string>& options = {});

/// Prints what a job writes to `output`, and each state that it goes through, until it has ended. Returns its
/// exit status.
int follow_job(const std::string& job, const std::string& output, std::ostream& out);

/// The part of a study that is measured on this number of nodes.
Study part_on_nodes(Study study, int nodes);

/// Submits a job for each number of nodes on which a measurement of the study is missing. A job starts when
/// the job before it has ended, in any way. `job`: further requests of each job. Prints the jobs. Throws
/// ConfigError if an earlier job of the study has not ended, and Error with sbatch's own words.
void submit_study(const Study& study, const BatchJobOptions& job, const std::string& folder,
                  const std::string& program, Filesystem& files, std::ostream& out);

}  // namespace cxtrain
