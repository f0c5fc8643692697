#include "cxtrain/base/problems.h"

namespace cxtrain {
namespace {

constexpr std::size_t kMostBytes = 3800;  // of all problems together
constexpr std::size_t kMostOfOne = 1000;  // of one text of a problem

}  // namespace

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  const std::string gap = " ... ";
  const std::size_t kept = most - gap.size(), begin = kept * 3 / 4;
  return text.substr(0, begin) + gap + text.substr(text.size() - (kept - begin));
}

std::vector<Problem> first_of(const std::vector<Problem>& problems) {
  std::vector<Problem> told;
  std::size_t bytes = 0;
  for (const Problem& problem : problems) {
    Problem next{shortened(problem.option, kMostOfOne / 4), shortened(problem.message, kMostOfOne),
                 shortened(problem.hint, kMostOfOne)};
    bytes += to_line(next).size() + 1;
    if (told.size() == kMostProblems || (bytes > kMostBytes && !told.empty())) {
      told.push_back({"", "and " + std::to_string(problems.size() - told.size()) + " more", ""});
      break;
    }
    told.push_back(std::move(next));
  }
  return told;
}

std::string to_line(const Problem& problem) {
  return (problem.option.empty() ? "" : problem.option + ": ") + problem.message +
         (problem.hint.empty() ? "" : " (" + problem.hint + ")");
}

}  // namespace cxtrain
