#include "cxtrain/scaling/measurement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/config/values.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/scaling/statistics.h"

namespace cxtrain {
namespace {

/// Seconds of a step in which the rank did not wait for other ranks.
double work_of(const RankProfile& rank) {
  double sum = 0;
  for (const PhaseTimes& each : rank.phases) sum += is_waiting(each.phase) ? 0 : each.step.median;
  return sum;
}

/// Seconds of a step in which the rank waited for its loader, or made batches.
double loading_of(const RankProfile& rank) {
  const auto data = std::ranges::find(rank.phases, Phase::data, &PhaseTimes::phase);
  return data == rank.phases.end() ? 0 : data->step.median;
}

/// What the ranks say of their machines and connections.
void find_machines(const std::vector<RankProfile>& ranks, Measurement& found) {
  std::map<std::string, std::vector<std::vector<int>>> masks;  // by host
  found.cores_suffice = true;
  for (const RankProfile& rank : ranks) {
    std::vector<std::vector<int>>& of_host = masks[rank.host];
    if (!rank.cores.empty()) of_host.push_back(rank.cores);
    if (of_host.size() > static_cast<std::size_t>(rank.machine_cores)) found.cores_suffice = false;
  }
  for (const auto& [host, of_host] : masks) {
    found.ranks_without_core += ranks_without_core(of_host);
    std::set<int> usable;
    for (const std::vector<int>& mask : of_host) usable.insert(mask.begin(), mask.end());
    const int cores = static_cast<int>(usable.size());
    if (cores > 0) found.cores = found.cores == 0 ? cores : std::min(found.cores, cores);
  }
  found.slow_node = slowest_node(ranks);
}

}  // namespace

/// A node sends to all others at one time, and receives from all of them: its speed is the sum over its
/// connections.
std::optional<SlowNode> slowest_node(std::span<const RankProfile> ranks) {
  constexpr double kLeastSeconds = 0.05;  // the kernel counts in ticks of up to 10 ms
  std::map<int, double> speeds;
  std::map<int, std::string> hosts;
  for (const RankProfile& rank : ranks) {
    hosts.emplace(rank.node, rank.host);
    for (const ConnectionUse& each : rank.connections) {
      if (each.seconds < kLeastSeconds) return std::nullopt;
      const double speed = static_cast<double>(each.bytes) / each.seconds;
      speeds[rank.node] += speed;
      speeds[each.node] += speed;
    }
  }
  if (speeds.size() < 3) return std::nullopt;
  const auto slowest =
      std::ranges::min_element(speeds, [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<double> others;
  for (const auto& [node, speed] : speeds) {
    if (node != slowest->first) others.push_back(speed);
  }
  return SlowNode{.host = hosts[slowest->first], .speed = slowest->second / median_of(others)};
}

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
  const auto profile = struct_of_json<Profile>(parse_shallow_json<nlohmann::ordered_json>(profile_json),
                                               {.document = "profile.json"});
  Measurement found{.size = point.size,
                    .round = point.round,
                    .strategy = run->strategy,
                    .precision = run->precision,
                    .steps = profile.steps,
                    .samples_per_step = run->samples_per_step,
                    .step = profile.step.median,
                    .step_p95 = profile.step.p95,
                    .longest_work = profile.longest_work,
                    .exchange = profile.exchange,
                    .mean_step = profile.step.mean,
                    .first_step_seconds = run->first_step_seconds,
                    .pss_bytes = run->pss_bytes};
  if (run->status != "done") found.failure = "the training was " + run->status;
  if (!(found.step > 0)) found.failure = "the training has run no step";
  for (const PhaseSummary& each : profile.phases) {
    found.phases[std::string(word_of(each.phase))] = each.step.median;
    if (each.phase == Phase::checkpoint) found.checkpoints = each.step.mean;
  }
  if (profile.ranks.empty()) return found;
  find_machines(profile.ranks, found);
  const auto slowest = std::ranges::max_element(
      profile.ranks, [](const RankProfile& a, const RankProfile& b) { return work_of(a) < work_of(b); });
  found.slowest_rank = slowest->rank;
  found.slowest_host = slowest->host;
  found.slowest_work = work_of(*slowest);
  found.loading = loading_of(*slowest);
  std::vector<double> others;
  for (const RankProfile& rank : profile.ranks) {
    if (&rank != &*slowest) others.push_back(work_of(rank));
    found.loading = std::min(found.loading, loading_of(rank));
  }
  found.usual_work = others.empty() ? found.slowest_work : median_of(others);
  return found;
}

}  // namespace cxtrain
