#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

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

}  // namespace cxtrain
