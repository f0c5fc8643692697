#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/scaling/study.h"

namespace cxtrain {

inline constexpr const char* kScaling = "scaling";

/// The request of a command line that begins with `scaling`.
struct ScalingRequest {
  std::string action = "run";      ///< or measure, collect, report, predict, network
  std::string folder = "scaling";  ///< of --out or --from
  std::vector<std::int64_t> ranks, nodes, to;
  std::int64_t rounds = 3;
  ScalingMode mode = ScalingMode::weak;
  std::vector<std::string> fit;  ///< words that are not scaling's own
  std::string network;           ///< the file of another network
  bool submit = false, json = false, help = false;
  std::vector<Problem> problems;

  void refuse(const std::string& option, const std::string& message, const std::string& hint,
              MessageCode code = MessageCode::invalid_value) {
    problems.push_back({option, message, hint, code});
  }
};

/// Reads the words after `scaling`. What is wrong becomes a problem of the result.
ScalingRequest read_scaling_request(std::span<const char* const> words);

/// Returns the sizes of --ranks and --nodes, by increasing ranks, each once. Appends what is wrong.
std::vector<StudySize> sizes_of(ScalingRequest& request);
/// Returns these numbers as numbers of ranks or nodes. Appends those that are none.
std::vector<int> counts_of(const std::vector<std::int64_t>& numbers, const char* option,
                           ScalingRequest& request);

/// The text of `scaling --help`.
std::string scaling_help();

}  // namespace cxtrain
