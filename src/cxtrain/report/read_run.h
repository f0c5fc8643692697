#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/run_event.h"

/// How the files of a run are read.
namespace cxtrain {

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
