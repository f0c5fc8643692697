#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/field_types.h"

namespace cxtrain {

/// In a run's folder: how far it is, as JSON, written anew every few seconds.
inline constexpr std::string_view kProgressFile = "progress.json";

/// How far a training is, for those who look from outside.
struct ProgressReport {
  double time = 0;                                           ///< when this was so, in seconds since 1970
  std::string run = {};                                      ///< its folder
  std::string host = {};                                     ///< rank 0's
  int ranks = 1, nodes = 1;                                  ///< that train
  std::int64_t epoch = 0;                                    ///< the running one, from 0
  std::int64_t max_epochs = -1;                              ///< -1: no limit
  std::int64_t batch = 0, batches = 0;                       ///< done of the epoch's, on each rank
  std::int64_t step = 0;                                     ///< optimizer steps done
  std::int64_t max_steps = -1;                               ///< -1: no limit
  double steps_per_second = 0;                               ///< lately
  double samples_per_second = 0;                             ///< lately, over all ranks
  std::optional<double> seconds_left = {};                   ///< at the speed so far; absent: nobody can say
  std::int64_t checkpoints = 0;                              ///< that have come to the disk
  std::string checkpoint_folder = {};                        ///< empty: in the run's own folder
  bool training = true;                                      ///< false: it has come to its end, or was ended
  std::vector<std::pair<std::string, double>> metrics = {};  ///< what the progress bar shows

  void fields(auto&& field) {
    CXTRAIN_EACH(field, time, run, host, ranks, nodes, epoch, max_epochs, batch, batches, step, max_steps,
                 steps_per_second, samples_per_second);
    field("seconds_left", seconds_left, in_json::kNullIfEmpty);
    CXTRAIN_EACH(field, checkpoints, checkpoint_folder, training, metrics);
  }
};

/// One line; null for numbers that are not finite.
std::string to_json(const ProgressReport& report);
/// Reads what `to_json` wrote; absent where it is something else, or was cut off.
std::optional<ProgressReport> parse_progress(std::string_view text);

/// The format that Prometheus scrapes (text exposition format 0.0.4): gauges `cxtrain_...`, labelled with the
/// run's folder.
std::string to_prometheus(const ProgressReport& report);

}  // namespace cxtrain
