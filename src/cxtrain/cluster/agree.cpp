#include "cxtrain/cluster/agree.h"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

namespace cxtrain {
namespace {

/// "<exit status> <message>", or "0 <text>".
std::string outcome_of(const std::function<std::string()>& work) {
  try {
    return "0 " + work();
  } catch (const std::exception& error) {
    return std::to_string(static_cast<int>(code_of(error))) + " " + message_of(error);
  } catch (...) {
    return std::to_string(static_cast<int>(ExitCode::failure)) + " an exception that is no std::exception";
  }
}

std::string text_of(const std::string& outcome) { return outcome.substr(outcome.find(' ') + 1); }

}  // namespace

std::vector<std::string> gather_agreed(World& world, const std::function<std::string()>& work) {
  std::vector<std::string> outcomes = world.all_gather(outcome_of(work));
  const auto failed =
      std::find_if(outcomes.begin(), outcomes.end(), [](const auto& text) { return !text.starts_with("0 "); });
  if (failed == outcomes.end()) {
    for (std::string& outcome : outcomes) outcome = text_of(outcome);
    return outcomes;
  }
  const auto code = static_cast<ExitCode>(std::stoi(*failed));
  std::string message = text_of(*failed);
  if (std::any_of(outcomes.begin(), outcomes.end(), [&](const auto& text) { return text != *failed; })) {
    message = "rank " + std::to_string(failed - outcomes.begin()) + ": " + message;
  }
  throw AgreedError(code, message);
}

void run_agreed(World& world, const std::function<void()>& work) {
  gather_agreed(world, [&] { return work(), std::string(); });
}

}  // namespace cxtrain
