#include "cxtrain/cli/plan_command.h"

#include <algorithm>
#include <cstdlib>
#include <ostream>

#include "cxtrain/cli/command_line.h"
#include "cxtrain/config/nearest_name.h"
#include "cxtrain/device/hardware_json.h"

namespace cxtrain {
namespace {

Hardware find_hardware(const Options& options) {
  if (options.hardware_file.empty()) return probe_hardware();
  const auto text = read_text_file(options.hardware_file);
  if (!text) throw DataError("hardware file " + options.hardware_file + " cannot be read; check the path");
  Hardware hardware = parse_hardware(*text, options.hardware_file);
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
  const int nodes = static_cast<int>(hardware.nodes.size());
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

/// A strategy that no plugin has. The plan names it in today's words.
void check_strategy(std::span<const std::string> known, Plan& plan) {
  if (known.empty() || std::find(known.begin(), known.end(), plan.strategy) != known.end()) return;
  std::string hint = did_you_mean(plan.strategy, known);
  for (const std::string& name : known) {
    if (!hint.ends_with('?')) hint += (hint.empty() ? "known are " : ", ") + name;
  }
  plan.errors.push_back({"strategy", "there is no strategy '" + plan.strategy + "'", hint});
}

}  // namespace

Plan make_plan(const Options& options, std::span<const std::string> known_strategies) {
  std::vector<Problem> problems;
  Plan plan;
  try {
    const Hardware hardware = find_hardware(options);
    const WorldFacts facts = imagine(options, hardware, problems);
    plan = resolve(options, hardware, facts);
  } catch (const DataError& error) {
    problems.push_back({"hardware", error.what(), ""});
  }
  check_strategy(known_strategies, plan);
  plan.errors.insert(plan.errors.end(), problems.begin(), problems.end());
  return plan;
}

int run_plan(const Options& options, std::ostream& out, std::span<const std::string> known_strategies) {
  const Plan plan = make_plan(options, known_strategies);
  out << (options.json ? to_json(plan) + "\n" : to_text(plan)) << std::flush;
  return static_cast<int>(plan.ok() ? ExitCode::done : ExitCode::refused);
}

void print_refused_plan(const std::vector<Problem>& problems, std::ostream& out) {
  Plan plan;
  plan.errors = problems;
  out << to_json(plan) << std::endl;
}

}  // namespace cxtrain
