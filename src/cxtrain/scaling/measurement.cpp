#include "cxtrain/scaling/measurement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/config/values.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/scaling/statistics.h"

namespace cxtrain {
namespace {

// What a study reads of profile.json (trainer/profile.h).
struct MeasuredPhase {
  std::string phase;
  double mean = 0, median = 0;
  void fields(auto&& field) {
    field("phase", phase);
    field("mean", mean);
    field("median", median);
  }
};

struct MeasuredRank {
  int rank = 0;
  std::string host;
  std::vector<MeasuredPhase> phases;
  int node = 0, machine_cores = 0;
  std::vector<int> cores;
  std::vector<ConnectionUse> connections;
  void fields(auto&& field) {
    field("rank", rank);
    field("host", host);
    field("phases", phases);
    field("node", node);
    field("machine_cores", machine_cores);
    field("cores", cores);
    field("connections", connections);
  }
  double work() const {
    double sum = 0;
    for (const MeasuredPhase& each : phases) sum += is_waiting(each.phase) ? 0 : each.median;
    return sum;
  }
  double loading() const {
    for (const MeasuredPhase& each : phases) {
      if (each.phase == "data") return each.median;
    }
    return 0;
  }
};

struct MeasuredProfile {
  std::int64_t steps = 0;
  double mean = 0, median = 0, p95 = 0, longest_work = 0;
  ExchangeTimes exchange;
  std::vector<MeasuredPhase> phases;
  std::vector<MeasuredRank> ranks;
  void fields(auto&& field) {
    field("steps", steps, in_json::kNeeded);
    field("mean", mean);
    field("median", median, in_json::kNeeded);
    field("p95", p95);
    field("longest_work", longest_work);
    field("exchange", exchange);
    field("phases", phases);
    field("ranks", ranks);
  }
};

/// What the ranks say of their machines and connections.
void find_machines(const std::vector<MeasuredRank>& ranks, Measurement& found) {
  std::map<std::string, std::vector<std::vector<int>>> masks;  // by host
  std::vector<ConnectionsOfRank> connections;
  found.cores_suffice = true;
  for (const MeasuredRank& rank : ranks) {
    std::vector<std::vector<int>>& of_host = masks[rank.host];
    if (!rank.cores.empty()) of_host.push_back(rank.cores);
    if (of_host.size() > static_cast<std::size_t>(rank.machine_cores)) found.cores_suffice = false;
    connections.push_back({rank.node, rank.host, rank.connections});
  }
  for (const auto& [host, of_host] : masks) found.ranks_without_core += ranks_without_core(of_host);
  found.slow_node = slowest_node(connections);
}

}  // namespace

bool is_waiting(std::string_view phase) {
  const Parsed<Phase> parsed = parse_choice<Phase>(phase);
  return parsed && is_waiting(*parsed);
}

double phase_of(const std::map<std::string, double>& phases, const std::string& name) {
  const auto found = phases.find(name);
  return found == phases.end() ? 0 : found->second;
}

double waiting_of(const std::map<std::string, double>& phases) {
  double sum = 0;
  for (const auto& [name, seconds] : phases) sum += is_waiting(name) ? seconds : 0;
  return sum;
}

Measurement measurement_of(const StudyPoint& point, std::string_view run_json,
                           std::string_view profile_json) {
  const std::optional<RunSummary> run = parse_summary(run_json);
  if (!run) throw DataError("run.json is not the summary of a run", MessageCode::invalid_file);
  const auto profile = struct_of_json<MeasuredProfile>(
      parse_shallow_json<nlohmann::ordered_json>(profile_json), {.document = "profile.json"});
  Measurement found{.size = point.size,
                    .round = point.round,
                    .strategy = run->strategy,
                    .precision = run->precision,
                    .steps = profile.steps,
                    .samples_per_step = run->samples_per_step,
                    .step = profile.median,
                    .step_p95 = profile.p95,
                    .longest_work = profile.longest_work,
                    .exchange = profile.exchange,
                    .mean_step = profile.mean,
                    .first_step_seconds = run->first_step_seconds,
                    .pss_bytes = run->pss_bytes};
  if (run->status != "done") found.failure = "the training was " + run->status;
  if (!(found.step > 0)) found.failure = "the training has run no step";
  for (const MeasuredPhase& phase : profile.phases) {
    found.phases[phase.phase] = phase.median;
    if (phase.phase == word_of(Phase::checkpoint)) found.checkpoints = phase.mean;
  }
  if (profile.ranks.empty()) return found;
  find_machines(profile.ranks, found);
  const auto slowest =
      std::max_element(profile.ranks.begin(), profile.ranks.end(),
                       [](const MeasuredRank& a, const MeasuredRank& b) { return a.work() < b.work(); });
  found.slowest_rank = slowest->rank;
  found.slowest_host = slowest->host;
  found.slowest_work = slowest->work();
  found.loading = slowest->loading();
  std::vector<double> others;
  for (const MeasuredRank& rank : profile.ranks) {
    if (&rank != &*slowest) others.push_back(rank.work());
    found.loading = std::min(found.loading, rank.loading());
  }
  found.usual_work = others.empty() ? found.slowest_work : median_of(others);
  return found;
}

}  // namespace cxtrain
