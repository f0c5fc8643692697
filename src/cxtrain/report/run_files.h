#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"

/// The folder of a run, and run.json.
namespace cxtrain {

/// The result of a run, as `run.json` has it.
struct RunSummary {
  std::string status;  ///< "done", "stopped", "failed"
  int exit_code = 0;
  std::string stopped_by;  ///< what stopped it: "SIGTERM"; not in run.json
  int world_size = 1;
  std::string strategy;
  std::string precision;
  std::int64_t epochs = 0;
  std::int64_t global_step = 0;
  std::map<std::string, double> metrics;  ///< the last value of each logged metric
  double seconds = 0;
  double samples_per_second = 0;              ///< over all ranks
  double first_step_seconds = 0;              ///< from the start of the program to the end of the first step
  std::int64_t peak_memory_bytes = 0;         ///< of the host, resident
  std::int64_t pss_bytes = 0;                 ///< the largest rank's at the end: `proportional_bytes`
  std::int64_t peak_device_memory_bytes = 0;  ///< of tensors, on a rank's devices
  std::string parameters_sha256;              ///< rank 0's
  /// And whether every rank's is the same; absent where the ranks have not compared them, or where the
  /// strategy keeps no whole model on a rank.
  std::optional<bool> parameters_equal_on_all_ranks = {};
};

/// Indented JSON; null for a number that is not finite.
std::string to_json(const RunSummary& summary);

/// Creates `default_root_dir`/cxtrain_logs/version_N with the next free N (one more than the highest there
/// is) and returns its path, which a crash leaves there. Runs that start at the same time get different ones.
/// One rank calls it. Throws ConfigError.
std::string make_version_dir(Filesystem& files, const std::string& default_root_dir);

/// The folders of runs below `default_root_dir`, the newest (of the highest number) first; none where nothing
/// has run yet.
std::vector<std::string> version_dirs(Filesystem& files, const std::string& default_root_dir);

/// Opens the folder of an earlier run for one that goes on in it: made again where it is gone, taken for this
/// job (`take_run_folder`, whose result it returns). The run's other files stay as they are. One rank calls
/// it. Throws ConfigError.
std::unique_ptr<FileLock> reopen_run_dir(Filesystem& files, const std::string& path, double patience);

/// Removes a run's run.json, which says how the run ended, since the run goes on. One rank calls it.
void remove_end_of_run(Filesystem& files, const std::string& path);

}  // namespace cxtrain
