#pragma once

#include <memory>
#include <string>

/// Logging: rank 0 to the console, every rank to its own file.
///
/// `Log` owns the sinks; the free functions write through Boost.Log's core. Lines of the files carry rank and
/// severity. Warnings and errors are events, too (base/run_event.h). Nothing on the step path logs.
namespace cxtrain {

class Filesystem;

class Log {
 public:
  /// Opens the console. Console lines go to stderr, so that stdout stays free for requested output. `quiet`:
  /// only warnings and errors go to the console. Files get everything. One object per process.
  explicit Log(int rank, bool quiet = false);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Writes `directory`/rank_K.log from now on, and no longer writes an earlier file. Writes each record at
  /// once, as a line that other processes can read. Crash reports go to the file, too (base/crash_report.h).
  /// The first event opens the rank's events file in `directory`. If a line cannot be written, only that line
  /// is lost. `files` must outlive the log. Throws FileError if the log file cannot be opened.
  void open_file(Filesystem& files, const std::string& directory);

  int rank() const { return rank_; }

 private:
  struct Sinks;
  int rank_;
  std::unique_ptr<Sinks> sinks_;
};

/// Logs details that few people need, to the files only.
void log_detail(const std::string& message);
void log_info(const std::string& message);
void log_warning(const std::string& message);
/// Logs an error, which reaches the console from every rank.
void log_error(const std::string& message);

}  // namespace cxtrain
