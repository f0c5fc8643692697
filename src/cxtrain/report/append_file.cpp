#include "cxtrain/report/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 16;

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  throw Error(ExitCode::failure, "cannot " + std::string(what) + " '" + path + "': " + std::strerror(error) +
                                     "; check the folder, its permissions and the space on its disk");
}

int open_or_fail(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) fail(path, "open", errno);
  return file;
}

/// 0, or the error number.
int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

AppendFile::AppendFile(std::string path)
    : path_(std::move(path)), file_(open_or_fail(path_, O_WRONLY | O_APPEND)) {}

AppendFile::~AppendFile() {
  write_buffer();
  close(file_);
}

void AppendFile::append(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kBuffer) flush();
}

/// What is written in part is taken back: a line cut short would spoil the one that follows it.
int AppendFile::write_buffer() noexcept {
  struct stat before {};
  if (fstat(file_, &before) != 0) return errno;
  if (before.st_nlink == 0 && S_ISREG(before.st_mode)) return ENOENT;  // deleted: nobody would see it
  const int error = write_all(file_, buffer_);
  if (error != 0 && S_ISREG(before.st_mode)) static_cast<void>(ftruncate(file_, before.st_size));
  return error;
}

void AppendFile::flush() {
  if (buffer_.empty()) return;
  const int error = write_buffer();
  buffer_.clear();
  if (error != 0) fail(path_, "write", error);
}

void write_atomically(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".part." + std::to_string(getpid());
  const int file = open_or_fail(temporary, O_WRONLY | O_TRUNC);
  int error = write_all(file, content);
  if (error == 0 && fsync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    fail(path, "write", error);
  }
}

}  // namespace cxtrain
