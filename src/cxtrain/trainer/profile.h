#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/report/profile.h"

/// Makes the profile of a fit.
namespace cxtrain {

/// The times that each rank sends to rank 0 at the end of a fit.
struct RankReport {
  RankProfile profile = {};
  /// Seconds of single steps in which the rank did not wait for other ranks. Of the same steps on all ranks.
  std::vector<double> work = {};
  ExchangeTimes exchange = {};  ///< as this rank measured it

  void fields(auto&& field) { CXTRAIN_EACH(field, profile, work, exchange); }
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
