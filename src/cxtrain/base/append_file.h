#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

/// A file that grows at its end, buffered: rows of metrics, records, lines. Each `append` is in the file as a
/// whole or not at all, so that the file stays well-formed whatever fails. Every error is an Error naming the
/// file and the reason; what was in the buffer then is dropped, and what is appended later is written again.
/// Nothing is synced: a crash of the machine may cost the last seconds, and cut the last row short.
class AppendFile {
 public:
  /// Opens the file, or creates it, in a folder that exists.
  AppendFile(Filesystem& files, std::string path);
  /// Writes what is left; an error at this point is lost, so call `flush` where it matters.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);
  void flush();
  /// How many of the `append`s since it was opened are in the file; those in the buffer are not.
  std::int64_t appends_written() const { return written_; }
  /// The bytes that are in the file, without those in the buffer. Throws where the file has been deleted.
  std::uint64_t size() const { return whole_ ? *whole_ : file_->size(); }
  /// Cuts the file after its first `size` bytes; what is in the buffer follows them.
  void cut(std::uint64_t size);
  const std::string& path() const { return path_; }

 private:
  void cut_back();

  std::string path_;
  std::string buffer_;
  std::int64_t buffered_ = 0, written_ = 0;  ///< appends
  std::unique_ptr<WritableFile> file_;
  std::optional<std::uint64_t> whole_;  ///< the size up to which the file is well-formed, where it is longer
};

}  // namespace cxtrain
