#include "cxtrain/cluster/agree.h"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

namespace cxtrain {
namespace {

/// "<exit status> <message>", or empty.
std::string outcome_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  } catch (const std::exception& error) {
    return std::to_string(static_cast<int>(ExitCode::failure)) + " " + error.what();
  }
  return {};
}

}  // namespace

void run_agreed(World& world, const std::function<void()>& work) {
  const std::vector<std::string> outcomes = world.all_gather(outcome_of(work));
  const auto failed =
      std::find_if(outcomes.begin(), outcomes.end(), [](const auto& text) { return !text.empty(); });
  if (failed == outcomes.end()) return;
  const auto code = static_cast<ExitCode>(std::stoi(*failed));
  std::string message = failed->substr(failed->find(' ') + 1);
  if (std::any_of(outcomes.begin(), outcomes.end(), [&](const auto& text) { return text != *failed; })) {
    message = "rank " + std::to_string(failed - outcomes.begin()) + ": " + message;
  }
  throw AgreedError(code, message);
}

}  // namespace cxtrain
