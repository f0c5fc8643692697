#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {

/// Zeroed host memory that other processes of the same user can map: a memfd, found under the owner's /proc
/// entry. It has no name in a file system, so nothing is left behind however a process ends, and the size of
/// /dev/shm does not limit it. Pages cost memory once they are touched.
class SharedMemory {
 public:
  /// Where another process on the machine finds it; plain data, to be sent.
  struct Address {
    std::int64_t process = 0, file = -1;
    std::uint64_t device = 0, inode = 0, bytes = 0;
  };

  /// Null where the kernel refuses it.
  static std::shared_ptr<SharedMemory> create(std::size_t bytes) noexcept;
  /// Another process's, while that one holds it. Null where it cannot be reached (other containers may have
  /// process numbers of their own).
  static std::shared_ptr<SharedMemory> open(const Address& address) noexcept;

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Address address() const noexcept;

 private:
  SharedMemory(FileDescriptor file, std::byte* data, std::size_t bytes)
      : file_(std::move(file)), data_(data), bytes_(bytes) {}
  static std::shared_ptr<SharedMemory> map(FileDescriptor file, std::size_t bytes) noexcept;

  FileDescriptor file_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace cxtrain
