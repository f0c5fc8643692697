#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/field_types.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/run_event.h"

/// The folder of a run, run.json, and how the run's other files are read.
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

/// Whether `path` is a file that the run of its folder may have written: no link, by which somebody's folder
/// could have other files copied into a run, and of the folder's owner, this user or root.
bool is_file_of_run(Filesystem& files, const std::string& path);

/// Returns the text of a small file of a run, such as run.json. Empty if the path is no file of a run
/// (`is_file_of_run`), if the file is larger than `most` bytes, or if reading fails.
std::string text_of_run_file(Filesystem& files, const std::string& path, std::uint64_t most = 1 << 20);

/// The first `bytes` bytes of a file of a run; none of what is no such file (`is_file_of_run`). Where it is
/// shorter, or missing, what is there up to the end of the last row that is whole, and a warning. `whole`:
/// how many bytes of a text are whole rows. Throws FileError where the file cannot be read.
std::string read_saved_rows(Filesystem& files, const std::string& path, std::int64_t bytes,
                            std::size_t (*whole)(std::string_view));

/// The bytes up to the end of the last line.
std::size_t whole_lines(std::string_view text);

/// Rows that were saved are not in this file any more: said in the log.
void warn_of_missing_rows(const std::string& path);

/// The lines of a part of a file, in bounded memory: what lies in a folder is not trusted. Lines of more than
/// `kLongestLine` bytes are passed over and counted.
class LineReader {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

  /// From the first line that begins at `begin` or later to the last that ends before `end`. Of a file that
  /// has no end of line behind its last text, this text is no line. `file` outlives this.
  LineReader(const ReadableFile& file, std::uint64_t begin, std::uint64_t end);

  /// Reads the next line into `line`, without its end; the text is valid until the next call. Returns false
  /// where there is none. Throws FileError.
  bool next(std::string_view& line);

  std::int64_t long_lines() const { return long_lines_; }
  /// Whether the part ends in a text without an end of line; known when `next` has returned false.
  bool ends_in_line() const { return begin_ < buffer_.size(); }

 private:
  bool read_more();

  const ReadableFile& file_;
  std::uint64_t next_, end_;
  std::string buffer_;
  std::size_t begin_ = 0;  ///< of the next line in the buffer
  bool skips_ = false;     ///< the rest of a line is passed over
  std::int64_t long_lines_ = 0;
};

struct RunEventsRead {
  bool found = false;        ///< the rank has an events file, which may be read
  std::int64_t damaged = 0;  ///< lines that are no events
  bool in_parts = false;     ///< the file is larger than was to be read
};

/// Calls `take` for each event of a rank, in the order of its events file in the folder of a run. Of a file
/// of more than `most_bytes`, only its end is read. Throws FileError.
RunEventsRead read_run_events(Filesystem& files, const std::string& run, int rank, std::uint64_t most_bytes,
                              const std::function<void(const RunEvent&)>& take);

/// Returns the event as a line of the log: "2026-11-24 10:00:00.000000 rank 0 warning: ...", in local time.
std::string line_of(const RunEvent& event);

}  // namespace cxtrain
