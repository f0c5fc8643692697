#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// Times as Slurm's commands read and print them.
namespace cxtrain {

/// The seconds of a time limit as sbatch reads it: "30" minutes, "30:00", "4:00:00", "1-0", "1-12:30",
/// "1-12:30:00"; absent: it is none.
std::optional<std::int64_t> seconds_of_time(std::string_view text);

/// The seconds of a time that Slurm prints: "1-02:03:04", "02:03:04", "3:04"; absent for words ("UNLIMITED").
std::optional<double> seconds_of_slurm_time(std::string_view text);

/// How many seconds from now the batch system ends this job: as the environment says (`seconds_to_job_end`:
/// Slurm 23.02 and newer), else as squeue(1) does, which is waited for, for seconds at most. Absent where
/// there is no job, no end, or no answer. For one rank: ten thousand would be too many to ask.
std::optional<double> ask_seconds_to_job_end();

}  // namespace cxtrain
