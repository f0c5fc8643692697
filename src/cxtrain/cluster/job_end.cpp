#include "cxtrain/cluster/job_end.h"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/launch_environment.h"

namespace cxtrain {
namespace {

constexpr double kAnswerSeconds = 10;  // for the controller, which may be busy

/// The number that is the whole text.
std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

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
  double days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto number = number_of(text.substr(0, dash));
    if (!number) return std::nullopt;
    days = static_cast<double>(*number);
    text.remove_prefix(dash + 1);
  }
  double seconds = 0;
  int parts = 0;
  for (bool more = true; more; ++parts) {
    const std::size_t colon = text.find(':');
    more = colon != std::string_view::npos;
    const auto number = number_of(text.substr(0, colon));
    if (!number || *number < 0) return std::nullopt;
    seconds = 60 * seconds + static_cast<double>(*number);
    if (more) text.remove_prefix(colon + 1);
  }
  if (parts < 2 || parts > 3) return std::nullopt;
  constexpr double kDay = 86'400;
  return days * kDay + seconds;
}

std::optional<double> ask_seconds_to_job_end() {
  if (const auto said = seconds_to_job_end()) return said;
  const char* job = std::getenv("SLURM_JOB_ID");
  return job != nullptr ? asked_of_slurm(job) : std::nullopt;
}

}  // namespace cxtrain
