#pragma once

#include <memory>
#include <string>

/// Logging: rank 0 to the console, every rank to its own file.
///
/// `Log` owns the sinks; the free functions write through Boost.Log's core, whose records carry rank and
/// severity. Nothing on the step path logs.
namespace cxtrain {

class Filesystem;

class Log {
 public:
  /// Console lines go to stderr, so that stdout stays for what the user asked for; with `quiet` only warnings
  /// and errors do. Files get everything. One per process.
  explicit Log(int rank, bool quiet = false);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Writes `directory`/rank_K.log from now on, and the file that was written before no more. Every record is
  /// a line that others can read at once. What is told of a crash goes there, too (base/crash_report.h). A
  /// line that cannot be written is lost, and nothing else is. `files`
  /// outlives the log. Throws FileError when the file cannot be opened.
  void open_file(Filesystem& files, const std::string& directory);

  int rank() const { return rank_; }

 private:
  struct Sinks;
  int rank_;
  std::unique_ptr<Sinks> sinks_;
};

/// What few people want to see: to the files only.
void log_detail(const std::string& message);
void log_info(const std::string& message);
void log_warning(const std::string& message);
/// Errors reach the console from every rank.
void log_error(const std::string& message);

}  // namespace cxtrain
