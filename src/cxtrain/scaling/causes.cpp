#include "cxtrain/scaling/causes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cxtrain/scaling/analysis.h"

namespace cxtrain {
namespace {

int ranks_of_node(const SizeResult& size) { return size.size.ranks / size.size.nodes; }

double phase_of(const SizeResult& size, const char* name) {
  const auto found = size.phases.find(name);
  return found == size.phases.end() ? 0 : found->second;
}

/// How long work of the smallest size takes on a rank of this size under perfect scaling.
double perfect_share(const StudyResult& study, const SizeResult& smallest, const SizeResult& size) {
  return study.study.mode == ScalingMode::strong
             ? static_cast<double>(smallest.size.ranks) / static_cast<double>(size.size.ranks)
             : 1;
}

bool shares_cores(const StudyResult& study, const SizeResult& size) {
  return study.cores > 0 && ranks_of_node(size) * std::max(1, study.study.threads) > study.cores;
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", 1e3 * seconds);
  return text;
}

std::string what_is_measured(const Cause& cause, const StudyResult& study, const SizeResult& size) {
  const std::string time = milliseconds(cause.seconds);
  switch (cause.kind) {
    case CauseKind::loader:
      return "ranks wait " + time + " of a step for batches: more --data.num_workers, or a cheaper loader";
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
      return "exchanges between ranks take " + time + " that no work hides: " +
             (size.size.nodes > 1 ? "a faster network, --strategy.comm_hook bf16 (half of the bytes), or "
                                    "--accumulate_grad_batches and larger batches (fewer exchanges)"
                                  : "--accumulate_grad_batches or larger batches (fewer exchanges)");
    case CauseKind::cores:
      return std::to_string(ranks_of_node(size)) + " ranks of a node share " + std::to_string(study.cores) +
             (study.cores == 1 ? " core" : " cores") + ", and their work takes " + time + " longer";
    case CauseKind::shared_node:
      return "the work of a rank takes " + time +
             " longer beside the other ranks of its node, which share its memory, caches and clock";
    case CauseKind::optimizer:
      return "the optimizer takes " + time +
             " more than a share of it would: --strategy.shard_optimizer true, or --strategy zero, divides "
             "its work among ranks";
    case CauseKind::fixed_work:
      return time + " of the work of a rank do not shrink with its batch: a larger batch is used better";
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
  const double share = perfect_share(study, smallest, size);
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
    const double more_optimizer = phase_of(size, "optimizer") - share * phase_of(smallest, "optimizer");
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
                        ". Without this a step takes " + milliseconds(size.step.value - cause.seconds) +
                        " in place of " + milliseconds(size.step.value) + ".");
  }
  return sentences;
}

}  // namespace cxtrain
