#include "cxtrain/cli/plan_command.h"

#include <algorithm>
#include <cstdlib>
#include <ostream>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/device/hardware.h"

namespace cxtrain {
namespace {

Hardware find_hardware(const Options& options) {
  if (options.hardware_file.empty()) return probe_hardware();
  constexpr std::size_t kMost = std::size_t{64} << 20;  // some 100,000 nodes of 8 GPUs
  Hardware hardware = parse_hardware(read_small_file(options.hardware_file, kMost), options.hardware_file);
  // The file's environment replaces ours for the names that it has, and only for these.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) hardware.env.emplace("CUDA_VISIBLE_DEVICES", visible);
  return hardware;
}

/// The world to imagine.
WorldFacts imagine(const Options& options, const Hardware& hardware, std::vector<Problem>& problems) {
  WorldFacts facts;
  facts.hostname = hardware.node(0).hostname;
  if (!options.plan_ranks) {
    if (options.plan_ranks_per_node)
      problems.push_back({"ranks_per_node", "means nothing without ranks", "add --ranks N"});
    return facts;
  }
  const int ranks = *options.plan_ranks;
  const int nodes = static_cast<int>(std::min<std::size_t>(hardware.nodes.size(), kMostRanks));
  if (std::max(ranks, options.plan_ranks_per_node.value_or(1)) > kMostRanks) {
    problems.push_back({ranks > kMostRanks ? "ranks" : "ranks_per_node",
                        "is more than any machine has; the most is " + std::to_string(kMostRanks), ""});
    return facts;
  }
  const int per_node = options.plan_ranks_per_node.value_or((ranks + nodes - 1) / nodes);
  if (ranks < 1 || per_node < 1) {
    problems.push_back({ranks < 1 ? "ranks" : "ranks_per_node", "must be 1 at least", ""});
    return facts;
  }
  facts.launched_by = LaunchedBy::mpirun;
  facts.size = ranks;
  facts.max_local_size = facts.local_size = std::min(per_node, ranks);
  facts.num_nodes = (ranks + per_node - 1) / per_node;
  return facts;
}

}  // namespace

Plan make_plan(const Options& options, const KnownStrategies& strategies) {
  std::vector<Problem> problems;
  Plan plan;
  try {
    const Hardware hardware = find_hardware(options);
    const WorldFacts facts = imagine(options, hardware, problems);
    plan = resolve(options, hardware, facts, strategies);
  } catch (const DataError& error) {
    problems.push_back({"hardware", error.what(), ""});
  }
  plan.errors.insert(plan.errors.end(), problems.begin(), problems.end());
  return plan;
}

int run_plan(const Options& options, std::ostream& out, const KnownStrategies& strategies,
             const std::vector<Problem>& problems) {
  Plan plan = make_plan(options, strategies);
  plan.errors.insert(plan.errors.begin(), problems.begin(), problems.end());
  if (!problems.empty() && !options.json) throw ConfigError(plan.errors);
  plan.errors = first_of(plan.errors);
  plan.warnings = first_of(plan.warnings);
  out << (options.json ? to_json(plan) + "\n" : to_text(plan)) << std::flush;
  return static_cast<int>(plan.ok() ? ExitCode::done : ExitCode::refused);
}

}  // namespace cxtrain
