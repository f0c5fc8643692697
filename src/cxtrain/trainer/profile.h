#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/phase_clock.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/connection_use.h"
#include "cxtrain/reduce/exchange_times.h"

/// Where the time of a fit went (`trainer.profiler`): the times of each rank, and what they say together. All
/// times are seconds of the host's clock.
namespace cxtrain {

/// Of a step, or of a phase in a step. Median and 95th percentile are over the last steps, at most
/// `PhaseClock::kKeptSteps`.
struct StepTimes {
  double mean = 0, median = 0, p95 = 0;

  void fields(auto&& field) {
    field("mean", mean);
    field("median", median);
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
    field("rank", rank);
    field("host", host);
    field("steps", steps);
    field("seconds", seconds);
    field("uncounted", uncounted);
    step.fields(field);
    field("phases", phases);
    field("node", node);
    field("cores", cores);
    field("machine_cores", machine_cores);
    field("connections", connections);
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
    field("share", share);
    field("slowest_rank", slowest_rank);
    field("slowest_host", slowest_host);
    field("slowest_mean", slowest_mean);
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
    field("steps", steps);
    field("seconds", seconds);
    step.fields(field);
    field("longest_work", longest_work);
    field("exchange", exchange);
    field("phases", phases);
    field("ranks", ranks);
  }
};

/// The times that each rank sends to rank 0 at the end of a fit.
struct RankReport {
  RankProfile profile = {};
  /// Seconds of single steps in which the rank did not wait for other ranks. Of the same steps on all ranks.
  std::vector<double> work = {};
  ExchangeTimes exchange = {};  ///< as this rank measured it

  void fields(auto&& field) {
    field("profile", profile);
    field("work", work);
    field("exchange", exchange);
  }
};

/// `times`: in seconds, of any number of steps.
StepTimes step_times(std::vector<double> times, double total, std::int64_t steps);

/// The times of this rank. `seconds`: of the fit.
RankReport report_of(const PhaseClock& clock, const WorldFacts& facts, double seconds);

/// `reports`: of at least one rank.
Profile summary_of(std::vector<RankReport> reports);

/// The table that a fit prints at its end. `on_device`: the steps ran on a device other than the CPU.
std::string to_table(const Profile& profile, bool on_device);

/// The content of profile.json.
std::string to_json(const Profile& profile);

}  // namespace cxtrain
