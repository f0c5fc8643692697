#include "cxtrain/cluster/slurm_time.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/cluster/launch_environment.h"

namespace cxtrain {
namespace {

constexpr double kAnswerSeconds = 10;  // for the controller, which may be busy

std::optional<double> asked_of_slurm(const std::string& job) {
  try {
    const std::vector<std::string> command{"squeue", "--noheader", "--jobs", job, "--format", "%L"};
    const CommandEnd end = run_command(command, kAnswerSeconds);
    const std::string_view answer = end.output;
    const std::size_t begin = answer.find_first_not_of(" \n");
    if (end.status != 0 || begin == std::string_view::npos) return std::nullopt;
    return seconds_of_slurm_time(answer.substr(begin, answer.find_first_of(" \n", begin) - begin));
  } catch (const Error& error) {
    log_detail("the end of the job's time is not known: " + message_of(error));
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::int64_t> seconds_of_time(std::string_view text) {
  const std::size_t dash = text.find('-');
  std::string_view rest = text;
  std::int64_t days = 0;
  if (dash != std::string_view::npos) {
    const auto number = number_of_digits(rest.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    rest.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (;;) {
    const std::size_t colon = rest.find(':');
    const auto number = number_of_digits(rest.substr(0, colon));
    if (!number || *number > 1'000'000) return std::nullopt;
    parts.push_back(*number);
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.size() > 3 || days > 1'000'000) return std::nullopt;
  // Without days: minutes, minutes:seconds or hours:minutes:seconds; with them, from the hours on.
  const bool from_hours = dash != std::string_view::npos || parts.size() == 3;
  std::int64_t unit = from_hours ? 3600 : 60, seconds = days * 86'400;
  for (const std::int64_t part : parts) {
    seconds += part * unit;
    unit /= 60;
  }
  return seconds;
}

std::optional<double> seconds_of_slurm_time(std::string_view text) {
  if (text.find(':') == std::string_view::npos)
    return std::nullopt;  // would be minutes, which are not printed
  const auto seconds = seconds_of_time(text);
  return seconds ? std::optional(static_cast<double>(*seconds)) : std::nullopt;
}

std::optional<double> ask_seconds_to_job_end() {
  if (const auto said = seconds_to_job_end()) return said;
  const char *job = std::getenv("SLURM_JOB_ID"), *array = std::getenv("SLURM_ARRAY_JOB_ID"),
             *task = std::getenv("SLURM_ARRAY_TASK_ID");
  if (job == nullptr) return std::nullopt;
  // One of the tasks has the number of the whole array, for which squeue prints all tasks.
  const bool of_array = array != nullptr && task != nullptr;
  return asked_of_slurm(of_array ? std::string(array) + "_" + task : job);
}

}  // namespace cxtrain
