#pragma once

#include <optional>
#include <string_view>

namespace cxtrain {

/// How many seconds from now the batch system ends this job: as the environment says (`seconds_to_job_end`:
/// Slurm 23.02 and newer), else as squeue(1) does, which is waited for, for seconds at most. Absent where
/// there is no job, no end, or no answer. For one rank: ten thousand would be too many to ask.
std::optional<double> ask_seconds_to_job_end();

/// The seconds of a time that Slurm prints: "1-02:03:04", "02:03:04", "3:04"; absent for words ("UNLIMITED").
std::optional<double> seconds_of_slurm_time(std::string_view text);

}  // namespace cxtrain
