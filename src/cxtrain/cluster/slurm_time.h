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

/// Returns the seconds from now until the batch system ends this job. The environment has the end since Slurm
/// 23.02 (`seconds_to_job_end`); otherwise squeue(1) prints the end, within a few seconds. Absent if there is
/// no job, if the job has no end, or if squeue does not answer. One rank calls the function, since Slurm
/// could not answer thousands of ranks.
std::optional<double> ask_seconds_to_job_end();

}  // namespace cxtrain
