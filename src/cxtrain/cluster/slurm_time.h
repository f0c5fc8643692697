#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// Numbers and times as Slurm's commands read and print them.
namespace cxtrain {

/// A number of digits alone; absent: it is none, or too large.
std::optional<std::int64_t> number_of_digits(std::string_view text);

/// The seconds of a time limit as sbatch reads it: "30" minutes, "30:00", "4:00:00", "1-0", "1-12:30",
/// "1-12:30:00"; absent: it is none.
std::optional<std::int64_t> seconds_of_time(std::string_view text);

}  // namespace cxtrain
