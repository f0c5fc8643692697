#include "cxtrain/trainer/profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/text.h"
#include "cxtrain/device/core_share.h"

namespace cxtrain {
namespace {

using ProfileRow = std::vector<std::string>;

/// The value that `share` of the values do not exceed.
double quantile(std::vector<double>& values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(values.size()))) - 1;
  const auto value = values.begin() + std::max<std::ptrdiff_t>(place, 0);
  std::nth_element(values.begin(), value, values.end());
  return *value;
}

/// The median over the steps that every rank has.
double longest_work_of(const std::vector<RankReport>& ranks) {
  std::vector<double> longest = ranks.front().work;
  for (const RankReport& rank : ranks) {
    longest.resize(std::min(longest.size(), rank.work.size()));
    for (std::size_t i = 0; i < longest.size(); ++i) longest[i] = std::max(longest[i], rank.work[i]);
  }
  return longest.empty() ? 0 : quantile(longest, 0.5);
}

void add(StepTimes& sum, const StepTimes& times, double weight) {
  sum.mean += weight * times.mean;
  sum.median += weight * times.median;
  sum.p95 += weight * times.p95;
}

/// Writes times in one unit, which fits the time of a step.
struct Unit {
  bool milliseconds;  ///< else microseconds

  const char* name() const { return milliseconds ? "ms" : "us"; }
  std::string text(double seconds) const {
    return formatted(milliseconds ? "%.2f" : "%.1f", seconds * (milliseconds ? 1e3 : 1e6));
  }
};

std::string percent(double share) { return formatted("%.1f %%", 100 * share); }

ProfileRow row_of(std::string name, const StepTimes& times, double share, const Unit& unit) {
  return {std::move(name),      unit.text(times.mean), unit.text(times.median),
          unit.text(times.p95), percent(share),        ""};
}

}  // namespace

StepTimes step_times(std::vector<double> times, double total, std::int64_t steps) {
  if (times.empty()) return {};
  return {total / static_cast<double>(steps), quantile(times, 0.5), quantile(times, 0.95)};
}

RankReport report_of(const PhaseClock& clock, const WorldFacts& facts, double seconds) {
  constexpr std::size_t kSteps = 1000;
  RankProfile profile{.rank = facts.rank,
                      .host = facts.hostname,
                      .steps = clock.steps(),
                      .seconds = seconds,
                      .node = facts.node,
                      .cores = cores_of_mask(),
                      .machine_cores = online_cores()};
  double counted = 0;
  for (std::size_t i = 0; i < kPhases; ++i) {
    const auto phase = static_cast<Phase>(i);
    const double in_phase = clock.seconds(phase);
    counted += in_phase;
    profile.phases.push_back(
        {phase, in_phase, step_times(clock.step_seconds(phase), in_phase, clock.steps())});
  }
  profile.step = step_times(clock.step_seconds(), counted, clock.steps());
  profile.uncounted = seconds - counted;
  return {std::move(profile), clock.work_seconds(kSteps)};
}

Profile summary_of(std::vector<RankReport> reports) {
  Profile profile{.longest_work = longest_work_of(reports)};
  std::vector<RankProfile> ranks;
  for (RankReport& report : reports) {
    if (report.exchange.seconds > profile.exchange.seconds) profile.exchange = report.exchange;
    ranks.push_back(std::move(report.profile));
  }
  profile.steps = ranks.front().steps;
  const double weight = 1 / static_cast<double>(ranks.size());
  double seconds_of_all = 0;
  for (const RankProfile& rank : ranks) {
    profile.seconds = std::max(profile.seconds, rank.seconds);
    seconds_of_all += rank.seconds;
    add(profile.step, rank.step, weight);
  }
  for (std::size_t i = 0; i < kPhases; ++i) {
    PhaseSummary summary{.phase = static_cast<Phase>(i)};
    double seconds = 0;
    for (const RankProfile& rank : ranks) {
      const PhaseTimes& times = rank.phases.at(i);
      seconds += times.seconds;
      add(summary.step, times.step, weight);
      if (&rank != &ranks.front() && times.step.mean <= summary.slowest_mean) continue;
      summary.slowest_rank = rank.rank;
      summary.slowest_host = rank.host;
      summary.slowest_mean = times.step.mean;
    }
    if (seconds == 0) continue;
    summary.share = seconds / seconds_of_all;
    profile.phases.push_back(std::move(summary));
  }
  std::ranges::stable_sort(profile.phases, std::greater{}, &PhaseSummary::share);
  profile.ranks = std::move(ranks);
  return profile;
}

std::string to_table(const Profile& profile, bool on_device) {
  const Unit unit{.milliseconds = profile.step.median >= 0.001};
  const bool several = profile.ranks.size() > 1;
  const std::string title =
      formatted("where the time went: %lld steps in %.2f s; %s of a step%s\n",
                static_cast<long long>(profile.steps), profile.seconds, unit.name(),
                several ? (", mean over " + std::to_string(profile.ranks.size()) + " ranks").c_str() : "");
  std::vector<ProfileRow> rows{{"phase", "mean", "median", "p95", "share", several ? "slowest rank" : ""}};
  for (const PhaseSummary& phase : profile.phases) {
    rows.push_back(row_of(std::string(word_of(phase.phase)), phase.step, phase.share, unit));
    if (several)
      rows.back().back() = std::to_string(phase.slowest_rank) + " on " + phase.slowest_host + ": " +
                           unit.text(phase.slowest_mean);
  }
  rows.push_back(row_of("step", profile.step, 1, unit));
  // The first and the last column are texts, the others are numbers.
  const auto is_number = [&](std::size_t column) { return column > 0 && column + 1 < rows[0].size(); };
  std::string text = title + aligned(rows, is_number, "  ");
  for (const RankProfile& rank : profile.ranks) {
    if (!rank.has_a_gap()) continue;
    text += "  " + percent(rank.uncounted / rank.seconds) + " of the time of rank " +
            std::to_string(rank.rank) + " on " + rank.host + " is missing in the table\n";
  }
  if (on_device)
    text +=
        "  These are times of the hosts. A device computes beside its host; its time is in the phase that "
        "waits for it.\n";
  text.pop_back();
  return text;
}

std::string to_json(const Profile& profile) {
  return text_of_json(json_of<nlohmann::ordered_json>(profile), 2) + "\n";
}

}  // namespace cxtrain
