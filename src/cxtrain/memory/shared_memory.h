#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {

/// Zeroed host memory that other processes of the same user can map. It lives until the last process that has
/// mapped it lets go of it.
class SharedMemory {
 public:
  /// Where another process on the machine finds it; plain data, to be sent.
  struct Address {
    std::int64_t process = 0, file = -1;
    std::uint64_t device = 0, inode = 0, bytes = 0;
    char name[40] = {};  ///< of its file; empty for anonymous memory
  };

  /// Anonymous memory: a memfd, which others find under its owner's /proc entry. Nothing is left behind
  /// however a process ends, the size of /dev/shm does not limit it, and pages cost memory once they are
  /// touched. Null where the kernel refuses it.
  static std::shared_ptr<SharedMemory> create(std::size_t bytes) noexcept;
  /// A file in /dev/shm, for processes that cannot reach each other's /proc entries. All of it is taken at
  /// once, and some room is left to others: null where there is not enough (containers often have 64 MB).
  /// Call `forget_name` as soon as everyone has opened it.
  static std::shared_ptr<SharedMemory> create_file(std::size_t bytes) noexcept;
  /// Another process's, while that one holds it. Null where it cannot be reached (other containers may have
  /// process numbers, or a /dev/shm, of their own).
  static std::shared_ptr<SharedMemory> open(const Address& address) noexcept;

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Address address() const noexcept;
  /// Removes the file's name: nobody can open it any more, and nothing is left when the last process ends.
  void forget_name() noexcept;

 private:
  SharedMemory(FileDescriptor file, std::byte* data, std::size_t bytes)
      : file_(std::move(file)), data_(data), bytes_(bytes) {}
  static std::shared_ptr<SharedMemory> map(FileDescriptor file, std::size_t bytes) noexcept;

  FileDescriptor file_;
  char name_[sizeof(Address::name)] = {};  ///< of a file that this process has made, and not yet removed
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace cxtrain
