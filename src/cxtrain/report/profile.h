#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/comm/connection_use.h"
#include "cxtrain/reduce/exchange_times.h"

/// The content of profile.json: where the time of a fit went (`trainer.profiler`), on each rank and on all.
/// All times are seconds of the host's clock.
namespace cxtrain {

/// The times of a step, or of a phase in a step. Median and 95th percentile are taken over the last steps, at
/// most `PhaseClock::kKeptSteps`.
struct StepTimes {
  double mean = 0, median = 0, p95 = 0;

  void fields(auto&& field) {
    field("mean", mean);
    field("median", median, in_json::kNeeded);
    field("p95", p95);
  }
};

struct PhaseTimes {
  Phase phase = Phase::other;
  double seconds = 0;  ///< of the whole fit
  StepTimes step = {};

  void fields(auto&& field) {
    field("phase", phase);
    field("seconds", seconds);
    step.fields(field);
  }
};

struct RankProfile {
  int rank = 0;
  std::string host = {};
  std::int64_t steps = 0;
  double seconds = 0;    ///< of the fit
  double uncounted = 0;  ///< of these, in no phase; below 0: counted twice
  StepTimes step = {};
  std::vector<PhaseTimes> phases = {};  ///< all, in the order of `Phase`
  int node = 0;
  std::vector<int> cores = {};  ///< that the rank may run on
  int machine_cores = 0;
  std::vector<ConnectionUse> connections = {};

  /// Whether the phases miss the fit's time by more than 1 %.
  bool has_a_gap() const { return uncounted > 0.01 * seconds || uncounted < -0.01 * seconds; }

  void fields(auto&& field) {
    CXTRAIN_EACH(field, rank, host, steps, seconds, uncounted);
    step.fields(field);
    CXTRAIN_EACH(field, phases, node, cores, machine_cores, connections);
  }
};

/// A phase on all ranks.
struct PhaseSummary {
  Phase phase = Phase::other;
  StepTimes step = {};  ///< the mean over the ranks of each of their times
  double share = 0;     ///< of the time of all ranks, from 0 to 1
  int slowest_rank = 0;
  std::string slowest_host = {};
  double slowest_mean = 0;  ///< of a step on the slowest rank

  void fields(auto&& field) {
    field("phase", phase);
    step.fields(field);
    CXTRAIN_EACH(field, share, slowest_rank, slowest_host, slowest_mean);
  }
};

struct Profile {
  std::int64_t steps = 0;
  double seconds = 0;       ///< of the fit, on the rank that took longest
  StepTimes step = {};      ///< the mean over the ranks of each of their times
  double longest_work = 0;  ///< of the rank that works longest in a step; the median over steps
  ExchangeTimes exchange = {};
  std::vector<PhaseSummary> phases = {};  ///< that took time, the longest first
  std::vector<RankProfile> ranks = {};

  void fields(auto&& field) {
    field("steps", steps, in_json::kNeeded);
    field("seconds", seconds);
    step.fields(field);
    CXTRAIN_EACH(field, longest_work, exchange, phases, ranks);
  }
};

}  // namespace cxtrain
