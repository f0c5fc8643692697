#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/scaling/causes.h"
#include "cxtrain/scaling/measurement.h"
#include "cxtrain/scaling/statistics.h"
#include "cxtrain/scaling/study.h"

namespace cxtrain {

/// The efficiency that a grant application has to show (CSC, the Finnish national computing centre: 1.5 times
/// as fast on twice the nodes, which is 75 %).
inline constexpr double kWantedEfficiency = 0.75;

/// A rank that is the slowest in every round.
struct SlowRank {
  int rank = 0;
  std::string host = {};
  double longer = 0;  ///< at least, than the median of the other ranks: 0.1 is 10 %

  void fields(auto&& field) { CXTRAIN_EACH(field, rank, host, longer); }
};

/// One size of a study, over its rounds. Times are in seconds.
struct SizeResult {
  StudySize size;
  std::vector<double> rounds = {};  ///< the step of each round that was measured
  Estimate step = {};
  double samples_per_second = 0;
  Estimate speedup = {};                      ///< samples a second, over those of the smallest size
  Estimate efficiency = {};                   ///< speedup, over how many times as many ranks there are
  std::map<std::string, double> phases = {};  ///< medians over the rounds
  std::int64_t samples_per_step = 0;
  std::int64_t pss_bytes = 0;
  double first_step_seconds = 0;
  // Seconds of a step, as `Measurement` has them; the medians over the rounds.
  double slowest_work = 0, usual_work = 0, longest_work = 0, loading = 0, mean_step = 0, checkpoints = 0;
  ExchangeTimes exchange = {};
  int ranks_without_core = 0;
  bool cores_suffice = false;
  int cores = 0;
  std::optional<SlowNode> slow_node = {};  ///< in every round
  std::optional<SlowRank> slow_rank = {};
  std::vector<Cause> causes = {};  ///< that make a step longer; the largest first
  std::vector<std::string> failures = {};

  bool measured() const { return !rounds.empty(); }
  double phase(const std::string& name) const { return phase_of(phases, name); }
  void fields(auto&& field) {
    size.fields(field);
    field("step_seconds", step);
    CXTRAIN_EACH(field, rounds, samples_per_second, speedup, efficiency, phases, samples_per_step, pss_bytes,
                 first_step_seconds, slowest_work, usual_work, longest_work, loading);
    field("mean_step_seconds", mean_step);
    CXTRAIN_EACH(field, checkpoints, exchange, ranks_without_core, cores_suffice, cores, slow_node, slow_rank,
                 causes, failures);
  }
};

/// What a study has found: the content of scaling.json.
struct StudyResult {
  Study study = {};
  std::string program = {};  ///< "cxtrain 0.1.0"
  std::string date = {};     ///< of the newest training: "2026-11-26"
  int cores = 0;             ///< that the ranks of a node may use; 0: unknown
  std::string strategy = {}, precision = {};
  std::vector<SizeResult> sizes = {};     ///< by increasing ranks
  std::vector<std::string> answers = {};  ///< in words
  std::vector<Measurement> points = {};   ///< all trainings, by size and round

  void fields(auto&& field) {
    CXTRAIN_EACH(field, study, program, date, cores, strategy, precision, sizes, answers, points);
  }
};

/// Returns the measurements of a size that have not failed, by round.
std::vector<const Measurement*> good_rounds(std::span<const Measurement> all, const StudySize& size);

/// Returns the median over rounds. `time`: a member of `Measurement`, or a function of a measurement.
template <class Time>
double median_of_rounds(std::span<const Measurement* const> rounds, const Time& time) {
  std::vector<double> times;
  for (const Measurement* const each : rounds) times.push_back(static_cast<double>(std::invoke(time, *each)));
  return median_of(std::move(times));
}

/// Fills in all but `study`, `program` and `date`. Pure: equal measurements give an equal result, in any
/// order.
StudyResult analyse(StudyResult result, std::vector<Measurement> measurements);

/// Returns the largest size whose efficiency is at least `kWantedEfficiency`, as far as its interval can
/// tell; null if no size is.
const SizeResult* recommended_size(const StudyResult& result);

/// Returns the step of a larger size under perfect scaling, over the step of the smaller size.
double perfect_share(ScalingMode mode, const SizeResult& smaller, const SizeResult& larger);

/// What a step of `larger` loses against `smaller`, phase by phase.
struct PhaseLoss {
  std::string phase;
  double seconds = 0;
};
/// Returns the differences of the phases of a step from what they were if the larger size were as efficient
/// as the smaller, the largest first. In the mode `strong` that is the smaller's time divided by the growth
/// of the number of ranks.
std::vector<PhaseLoss> losses(ScalingMode mode, const SizeResult& smaller, const SizeResult& larger);

}  // namespace cxtrain
