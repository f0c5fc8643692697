#pragma once

#include <string>
#include <string_view>

namespace cxtrain {

/// A file that grows at its end, buffered. Every error is an Error naming the file and the reason; what was to
/// be written then is dropped, as a whole, so that the file stays well-formed.
class AppendFile {
 public:
  explicit AppendFile(std::string path);
  /// Writes what is left; an error at this point is lost, so call `flush` where it matters.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);
  void flush();
  const std::string& path() const { return path_; }

 private:
  int write_buffer() noexcept;

  std::string path_;
  std::string buffer_;
  int file_ = -1;
};

/// Replaces the content of a file as a whole: readers see the old or the new one. Throws Error naming the
/// file.
void write_atomically(const std::string& path, std::string_view content);

}  // namespace cxtrain
