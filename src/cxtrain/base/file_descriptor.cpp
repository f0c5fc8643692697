#include "cxtrain/base/file_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "no file of data";
}

[[noreturn]] void refuse(const std::string& path, const std::string& why, const std::string& cure) {
  throw DataError("cannot read '" + path + "': " + why + "; " + cure, MessageCode::file_failed);
}

}  // namespace

FileDescriptor open_regular_file(const std::string& path) {
  // Opening a pipe waits for its writer, unless it is told not to; regular files do not care.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  const int error = errno;
  struct stat info {};
  const bool known = file ? fstat(file.get(), &info) == 0 : stat(path.c_str(), &info) == 0;
  if (known && !S_ISREG(info.st_mode)) refuse(path, "it is " + kind_of(info.st_mode), "name a regular file");
  if (!file || !known) refuse(path, std::strerror(error), "check the path and its permissions");
  return file;
}

std::string read_small_file(const std::string& path, std::size_t most) {
  const FileDescriptor file = open_regular_file(path);
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  std::string content;
  std::size_t size = 0;
  while (size <= most) {
    content.resize(size + kPiece);
    const ssize_t got = read(file.get(), content.data() + size, kPiece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, std::strerror(errno), "check the file");
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > most)
    refuse(path, "it has more than " + std::to_string(most >> 10) + " KiB", "check which file it is");
  content.resize(size);
  return content;
}

AbstractAddress::AbstractAddress(std::string_view name) {
  address_.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof address_.sun_path - 1);  // a zero comes first
  std::memcpy(address_.sun_path + 1, name.data(), size);
  size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

}  // namespace cxtrain
