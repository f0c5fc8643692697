#include "cxtrain/reduce/verify.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"

namespace cxtrain {
namespace {

std::string describe(const NamedTensor& parameter) {
  std::ostringstream text;
  text << parameter.name << ": " << c10::toString(parameter.tensor.scalar_type()) << " "
       << parameter.tensor.sizes() << (parameter.tensor.requires_grad() ? "" : " (frozen)");
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void verify_same_parameters(std::span<const NamedTensor> parameters, World& world) {
  std::string mine;
  for (const NamedTensor& parameter : parameters) mine += describe(parameter) + "\n";
  // Equal hashes everywhere: the largest is as large as the smallest.
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>{}(mine) >> 2);
  const std::int64_t largest = world.max(hash), smallest = -world.max(-hash);
  if (largest == smallest) return;

  const std::vector<std::string> everyone = world.all_gather(mine);
  const std::vector<std::string> reference = lines_of(everyone[0]);
  for (std::size_t rank = 1; rank < everyone.size(); ++rank) {
    const std::vector<std::string> other = lines_of(everyone[rank]);
    for (std::size_t i = 0; i < std::max(reference.size(), other.size()); ++i) {
      const std::string here = i < reference.size() ? reference[i] : "no further parameter";
      const std::string there = i < other.size() ? other[i] : "no further parameter";
      if (here == there) continue;
      throw AgreedError(ExitCode::failure,
                        "the ranks have built different models: parameter " + std::to_string(i) +
                            " on rank 0 is `" + here + "`, on rank " + std::to_string(rank) + " it is `" + there +
                            "`; build the same model on every rank (no rank-dependent layers or sizes)");
    }
  }
  throw AgreedError(ExitCode::failure, "the ranks disagree about the model's parameters");
}

}  // namespace cxtrain
