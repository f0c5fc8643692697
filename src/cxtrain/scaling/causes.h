#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/field_types.h"

/// Why a step of a study is longer than it could be. Pure.
namespace cxtrain {

struct SizeResult;
struct StudyResult;

/// The kinds of causes that make a step longer.
enum class CauseKind : std::uint8_t {
  loader,          ///< all ranks wait for batches
  slow_rank,       ///< one rank works longer than the others in each round, and the others wait for it
  noise,           ///< ranks differ from step to step, and all wait for the slowest rank of each step
  small_messages,  ///< gradients travel in more messages than suit the network
  slow_link,       ///< the connections of one node are slower than those of the others
  no_overlap,      ///< gradients travel after backward, although they could travel during backward
  communication,   ///< what is left of exchanges between ranks that no work hides
  binding,         ///< ranks share cores, although there are cores for all
  cores,           ///< ranks share cores
  shared_node,     ///< the work of a rank takes longer beside other ranks of its node
  optimizer,       ///< in strong scaling: the optimizer's work does not shrink as the batch of a rank does
  fixed_work,      ///< in strong scaling: other work does not shrink as the batch of a rank does
  checkpoints,     ///< training waits for checkpoints, in the mean over steps
};
template <>
struct ChoiceOf<CauseKind> {
  static constexpr std::array<std::string_view, 13> words{
      "loader",  "slow_rank", "noise",       "small_messages", "slow_link",  "no_overlap", "communication",
      "binding", "cores",     "shared_node", "optimizer",      "fixed_work", "checkpoints"};
};

/// One cause.
struct Cause {
  CauseKind kind = CauseKind::loader;
  double seconds = 0;  ///< of a step: without the cause a step would be shorter by these
  double share = 0;    ///< of the step (`step_with`)

  void fields(auto&& field) {
    field("cause", kind);
    field("seconds", seconds);
    field("share", share);
  }
};

/// From this part of a step on a cause is named. What a study of an idle machine shows is less.
inline constexpr double kShareOfCause = 0.03;

/// Below this part of the other nodes' speed the connections of a node are slow. The slowest of equal nodes
/// is above.
inline constexpr double kSlowNode = 0.8;

/// Returns the step that a cause makes longer: the median step, or for checkpoints, which few steps write,
/// the mean step.
double step_with(CauseKind kind, const SizeResult& size);

/// Returns the causes of a measured size, the largest first. `smallest`: the smallest measured size of the
/// study. Ranks that share cores wait for cores: of their other causes only the loader and checkpoints are
/// named.
std::vector<Cause> causes_of(const StudyResult& study, const SizeResult& smallest, const SizeResult& size);

/// Returns a sentence for each cause of a size: what was measured, what would be gained, where to look.
std::vector<std::string> explain_causes(const SizeResult& size);

}  // namespace cxtrain
