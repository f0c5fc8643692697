#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/field_types.h"
#include "cxtrain/base/filesystem.h"

/// The folder of a run, and run.json.
namespace cxtrain {

/// The result of a run, as in `run.json`.
struct RunSummary {
  std::string status;  ///< "done", "stopped", "failed"
  int exit_code = 0;
  std::string stopped_by;  ///< cause of a stop: "SIGTERM"; not in run.json
  int world_size = 1;
  std::string strategy;
  std::string precision;
  std::int64_t epochs = 0;
  std::int64_t global_step = 0;
  std::map<std::string, double> metrics;  ///< the last value of each logged metric
  double seconds = 0;
  double samples_per_second = 0;              ///< over all ranks
  std::int64_t samples_per_step = 0;          ///< of all ranks, in a full optimizer step
  double first_step_seconds = 0;              ///< from the start of the program to the end of the first step
  std::int64_t peak_memory_bytes = 0;         ///< resident memory of the host
  std::int64_t pss_bytes = 0;                 ///< `proportional_bytes` of the largest rank, at the end
  std::int64_t peak_device_memory_bytes = 0;  ///< tensors on a rank's devices
  std::string parameters_sha256;              ///< rank 0's
  /// Whether `parameters_sha256` is equal on every rank; absent if the ranks have not compared it, or if the
  /// strategy keeps no whole model on a rank.
  std::optional<bool> parameters_equal_on_all_ranks = {};

  void fields(auto&& field) {
    CXTRAIN_EACH(field, status, exit_code, world_size, strategy, precision, epochs, global_step, metrics,
                 seconds, samples_per_second, samples_per_step, first_step_seconds, peak_memory_bytes,
                 pss_bytes, peak_device_memory_bytes, parameters_sha256);
    field("parameters_equal_on_all_ranks", parameters_equal_on_all_ranks, in_json::kNullIfEmpty);
  }
};

/// Returns indented JSON; null for a number that is not finite.
std::string to_json(const RunSummary& summary);
/// Reads what `to_json` wrote; absent if the text is something else.
std::optional<RunSummary> parse_summary(std::string_view text);

/// Creates `default_root_dir`/cxtrain_logs/version_N with the next free N (one more than the highest that
/// exists) and returns its path. The folder survives a crash. Runs that start at once get different folders.
/// One rank calls it. Throws ConfigError.
std::string make_version_dir(Filesystem& files, const std::string& default_root_dir);

/// Returns the folders of runs below `default_root_dir`, the newest (highest number) first; empty if nothing
/// has run yet.
std::vector<std::string> version_dirs(Filesystem& files, const std::string& default_root_dir);

/// Opens the folder of an earlier run to continue in it. Creates the folder again if it is gone, takes it for
/// this job, and returns the result of `take_run_folder`. The run's other files stay as they are. One rank
/// calls it. Throws ConfigError.
std::unique_ptr<FileLock> reopen_run_dir(Filesystem& files, const std::string& path, double patience);

/// Removes a run's run.json, which states how the run ended, and progress.json, the last report before that
/// end: the run continues. One rank calls it.
void remove_end_of_run(Filesystem& files, const std::string& path);

}  // namespace cxtrain
