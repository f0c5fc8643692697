#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cxtrain/base/each_field.h"
#include "cxtrain/reduce/exchange_times.h"
#include "cxtrain/report/profile.h"
#include "cxtrain/scaling/study.h"

namespace cxtrain {

/// A node whose connections are slower than those of the other nodes.
struct SlowNode {
  std::string host = {};
  double speed = 1;  ///< over the median of the other nodes

  void fields(auto&& field) { CXTRAIN_EACH(field, host, speed); }
};

/// What one training of a study has shown: the content of point.json. Times are in seconds.
struct Measurement {
  StudySize size;
  int round = 1;
  std::string failure = {};  ///< why the training failed; empty: it did not
  std::string strategy = {}, precision = {};
  std::int64_t steps = 0;
  std::int64_t samples_per_step = 0;  ///< of all ranks
  double step = 0;                    ///< the median
  double step_p95 = 0;
  std::map<std::string, double> phases =
      {};  ///< medians over the steps, means of them over the ranks, by the names of docs/where_time_goes.md
  // The rank that works longest for itself: in all phases in which it does not wait for other ranks.
  int slowest_rank = 0;
  std::string slowest_host = {};
  double slowest_work = 0;  ///< of a step
  double usual_work = 0;    ///< the median over the other ranks
  double longest_work = 0;  ///< of the rank that works longest in this very step; the median over the steps
  double loading = 0;       ///< what every rank waits for batches
  ExchangeTimes exchange = {};
  double mean_step = 0;
  double checkpoints = 0;      ///< of a step, in the mean
  int ranks_without_core = 0;  ///< of all nodes
  bool cores_suffice = false;  ///< each machine has as many cores as ranks
  int cores = 0;  ///< that the ranks of a node may use together, on the node with the fewest; 0: unknown
  std::optional<SlowNode> slow_node = {};
  double first_step_seconds = 0;
  std::int64_t pss_bytes = 0;

  bool failed() const { return !failure.empty(); }
  void fields(auto&& field) {
    field("ranks", size.ranks);
    field("nodes", size.nodes);
    field("repeat", round);
    CXTRAIN_EACH(field, failure, strategy, precision, steps, samples_per_step);
    field("step_seconds", step);
    field("step_seconds_p95", step_p95);
    CXTRAIN_EACH(field, phases, slowest_rank, slowest_host, slowest_work, usual_work, longest_work, loading,
                 exchange);
    field("mean_step_seconds", mean_step);
    CXTRAIN_EACH(field, checkpoints, ranks_without_core, cores_suffice, cores, slow_node, first_step_seconds,
                 pss_bytes);
  }
};

/// Returns the measurement of a training that has written these files (`run.json`, `profile.json`). Throws
/// DataError for a text that is not such a file.
Measurement measurement_of(const StudyPoint& point, std::string_view run_json, std::string_view profile_json);

/// Returns the node that exchanges bytes most slowly with the other nodes, by the bytes and the times of all
/// connections. Absent with fewer than three nodes, and where connections have carried bytes for too short a
/// time to tell. Pure.
std::optional<SlowNode> slowest_node(std::span<const RankProfile> ranks);

/// The time of a phase; 0: the step does not have the phase.
double phase_of(const std::map<std::string, double>& phases, const std::string& name);

/// The part of a step in which a rank waits for other ranks.
double waiting_of(const std::map<std::string, double>& phases);
bool is_waiting(std::string_view phase);

}  // namespace cxtrain
