#include "cxtrain/scaling/causes.h"

#include <algorithm>

#include "cxtrain/scaling/analysis.h"
#include "cxtrain/scaling/words.h"

namespace cxtrain {
namespace {

int ranks_of_node(const SizeResult& size) { return size.size.ranks / size.size.nodes; }

bool shares_cores(const StudyResult& study, const SizeResult& size) {
  return study.cores > 0 && ranks_of_node(size) * std::max(1, study.study.threads) > study.cores;
}

std::string what_is_measured(const Cause& cause, const StudyResult& study, const SizeResult& size) {
  const std::string time = milliseconds_text(cause.seconds);
  switch (cause.kind) {
    case CauseKind::loader:
      return "ranks wait for batches for " + time +
             " of a step: use more --data.num_workers, or a cheaper loader";
    case CauseKind::slow_rank:
      return "rank " + std::to_string(size.slow_rank->rank) +
             (size.slow_rank->host.empty() ? "" : " on " + size.slow_rank->host) + " works " + time +
             " longer than the others in each round, and they wait for it: compare its phases in "
             "profile.json, and its host with the others (cxtrain_mpi doctor)";
    case CauseKind::noise:
      return "ranks differ from step to step, and all wait " + time +
             " for the slowest of each step: look for other programs on their cores, for samples of "
             "different length, for slow reads of files";
    case CauseKind::communication:
      return "exchanges between ranks take " + time + " that no work hides" +
             (size.exchanges > 0 ? " (alone they take " + milliseconds_text(size.exchanges) + ")" : "") +
             ": " +
             (size.size.nodes > 1 ? "a faster network, --strategy.comm_hook bf16 (half of the bytes), or "
                                    "--accumulate_grad_batches and larger batches (fewer exchanges)"
                                  : "--accumulate_grad_batches or larger batches (fewer exchanges)");
    case CauseKind::cores:
      return std::to_string(ranks_of_node(size)) + " ranks of a node share " + counted(study.cores, "core") +
             ", and their work takes " + time + " longer";
    case CauseKind::shared_node:
      return "the work of a rank takes " + time +
             " longer beside the other ranks of its node, which share its memory, caches and clock";
    case CauseKind::optimizer:
      return "the optimizer takes " + time +
             " more than a share of it would: --strategy.shard_optimizer true, or --strategy zero, divides "
             "its work among ranks";
    case CauseKind::fixed_work:
      return time + " of a rank's work remain when the batch of the rank shrinks: use a larger batch";
  }
  return {};
}

}  // namespace

std::vector<Cause> causes_of(const StudyResult& study, const SizeResult& smallest, const SizeResult& size) {
  std::vector<Cause> found;
  const auto add = [&](CauseKind kind, double seconds) {
    if (seconds >= kShareOfCause * size.step.value)
      found.push_back({kind, seconds, seconds / size.step.value});
  };
  const double share = perfect_share(study.study.mode, smallest, size);
  const double more_work = size.usual_work - share * smallest.usual_work;
  const double more_loading = size.loading - share * smallest.loading;
  add(CauseKind::loader, size.loading);
  if (shares_cores(study, size)) {
    add(CauseKind::cores, more_work - more_loading);
  } else {
    if (size.slow_rank) add(CauseKind::slow_rank, size.slowest_work - size.usual_work);
    if (size.size.ranks > 1 && size.longest_work > 0) {  // else a program before this one has measured
      add(CauseKind::noise, size.longest_work - (size.slow_rank ? size.slowest_work : size.usual_work));
      add(CauseKind::communication, size.step.value - size.longest_work);
    }
    const double more_optimizer = size.phase("optimizer") - share * smallest.phase("optimizer");
    if (study.study.mode == ScalingMode::strong) {
      add(CauseKind::optimizer, more_optimizer);
      add(CauseKind::fixed_work, more_work - more_loading - more_optimizer);
    } else if (ranks_of_node(size) > ranks_of_node(smallest)) {
      add(CauseKind::shared_node, more_work - more_loading);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Cause& a, const Cause& b) { return a.seconds > b.seconds; });
  return found;
}

std::vector<std::string> explain_causes(const StudyResult& study, const SizeResult& size) {
  std::vector<std::string> sentences;
  for (const Cause& cause : size.causes) {
    sentences.push_back("With " + name_of(size.size) + ": " + what_is_measured(cause, study, size) +
                        ". Without this a step takes " + milliseconds_text(size.step.value - cause.seconds) +
                        " in place of " + milliseconds_text(size.step.value) + ".");
  }
  return sentences;
}

}  // namespace cxtrain
