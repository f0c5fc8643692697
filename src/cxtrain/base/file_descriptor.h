#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

/// Descriptors of files and sockets: ownership, opening of files, addresses of local sockets.
namespace cxtrain {

/// An owned descriptor of a file or socket; -1: none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  int get() const noexcept { return descriptor_; }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }
  /// Returns the descriptor, which the caller must close.
  int release() noexcept { return std::exchange(descriptor_, -1); }
  void reset() noexcept {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  }

 private:
  int descriptor_;
};

/// Opens a regular file for reading and never waits. Throws DataError, with the path and the kind of file,
/// for anything except a regular file: a pipe, a socket, a terminal or a device might never end, or never
/// begin.
FileDescriptor open_regular_file(const std::string& path);

/// Returns the content of a regular file that is expected to be small. Throws DataError as
/// `open_regular_file` does, and for a file of more than `most` bytes.
std::string read_small_file(const std::string& path, std::size_t most);

/// The address of a local socket that has a name and no file. The address ends with the last process that has
/// the socket open.
class AbstractAddress {
 public:
  /// A name of more than 107 bytes is cut.
  explicit AbstractAddress(std::string_view name);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_;
};

}  // namespace cxtrain
