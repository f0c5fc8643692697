#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/field_types.h"
#include "cxtrain/scaling/study.h"

/// Why a step of a study is longer than it could be. Pure.
namespace cxtrain {

struct SizeResult;
struct StudyResult;

/// The kinds of causes that make a step longer.
enum class CauseKind : std::uint8_t {
  loader,         ///< all ranks wait for batches
  slow_rank,      ///< one rank works longer than the others in each round, and the others wait for it
  noise,          ///< ranks differ from step to step, and all wait for the slowest rank of each step
  communication,  ///< exchanges between ranks that no work hides
  cores,          ///< ranks share cores
  shared_node,    ///< the work of a rank takes longer beside other ranks of its node
  optimizer,      ///< in strong scaling: the optimizer's work does not shrink as the batch of a rank does
  fixed_work,     ///< in strong scaling: other work does not shrink as the batch of a rank does
};
template <>
struct ChoiceOf<CauseKind> {
  static constexpr std::array<std::string_view, 8> words{
      "loader", "slow_rank", "noise", "communication", "cores", "shared_node", "optimizer", "fixed_work"};
};

/// One cause.
struct Cause {
  CauseKind kind = CauseKind::loader;
  double seconds = 0;  ///< of a step: without the cause a step would be shorter by these
  double share = 0;    ///< of the step

  void fields(auto&& field) {
    field("cause", kind);
    field("seconds", seconds);
    field("share", share);
  }
};

/// From this part of a step on a cause is named. What a study of an idle machine shows is less.
inline constexpr double kShareOfCause = 0.03;

/// Returns the causes of a measured size, the largest first. `smallest`: the smallest measured size of the
/// study. Ranks that share cores wait for cores: they have no other cause but the loader.
std::vector<Cause> causes_of(const StudyResult& study, const SizeResult& smallest, const SizeResult& size);

/// Returns a sentence for each cause of a size: what was measured, what would be gained, where to look.
std::vector<std::string> explain_causes(const StudyResult& study, const SizeResult& size);

}  // namespace cxtrain
