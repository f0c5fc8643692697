#include "cxtrain/cluster/job_end.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/slurm_time.h"

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
