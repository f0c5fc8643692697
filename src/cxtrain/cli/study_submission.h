#pragma once

#include <iosfwd>
#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/config/options.h"
#include "cxtrain/scaling/study.h"

namespace cxtrain {

/// The part of a study that is measured on this number of nodes.
Study part_on_nodes(Study study, int nodes);

/// Submits a job for each number of nodes on which a measurement of the study is missing. A job starts when
/// the job before it has ended, in any way. `job`: further requests of each job. Prints the jobs. Throws
/// ConfigError if an earlier job of the study has not ended, and Error with sbatch's own words.
void submit_study(const Study& study, const BatchJobOptions& job, const std::string& folder,
                  const std::string& program, Filesystem& files, std::ostream& out);

}  // namespace cxtrain
