#include "cxtrain/scaling/measurement.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/config/values.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/scaling/statistics.h"

namespace cxtrain {
namespace {

// What a study reads of profile.json (trainer/profile.h).
struct MeasuredPhase {
  std::string phase;
  double median = 0;
  void fields(auto&& field) {
    field("phase", phase);
    field("median", median);
  }
};

struct MeasuredRank {
  int rank = 0;
  std::string host;
  std::vector<MeasuredPhase> phases;
  void fields(auto&& field) {
    field("rank", rank);
    field("host", host);
    field("phases", phases);
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

struct MeasuredExchange {
  double seconds = 0;
  std::int64_t bytes = 0;
  void fields(auto&& field) {
    field("seconds", seconds);
    field("bytes", bytes);
  }
};

struct MeasuredProfile {
  std::int64_t steps = 0;
  double median = 0, p95 = 0, longest_work = 0;
  MeasuredExchange exchange;
  std::vector<MeasuredPhase> phases;
  std::vector<MeasuredRank> ranks;
  void fields(auto&& field) {
    field("steps", steps, in_json::kNeeded);
    field("median", median, in_json::kNeeded);
    field("p95", p95);
    field("longest_work", longest_work);
    field("exchange", exchange);
    field("phases", phases);
    field("ranks", ranks);
  }
};

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
                    .exchanges = profile.exchange.seconds,
                    .exchanged_bytes = profile.exchange.bytes,
                    .first_step_seconds = run->first_step_seconds,
                    .pss_bytes = run->pss_bytes};
  if (run->status != "done") found.failure = "the training was " + run->status;
  if (!(found.step > 0)) found.failure = "the training has run no step";
  for (const MeasuredPhase& phase : profile.phases) found.phases[phase.phase] = phase.median;
  if (profile.ranks.empty()) return found;
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
