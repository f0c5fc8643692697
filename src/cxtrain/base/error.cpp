#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

std::string describe(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    if (!problem.option.empty()) text += problem.option + ": ";
    text += problem.message;
    if (!problem.hint.empty()) text += " (" + problem.hint + ")";
  }
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<Problem> problems)
    : Error(ExitCode::refused, describe(problems)), problems_(std::move(problems)) {}

}  // namespace cxtrain
