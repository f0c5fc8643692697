#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>

#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {

class MpiComm;

/// Zeroed host memory that other processes of this user can map. It lives until the last process that has
/// mapped it releases it.
class SharedMemory {
 public:
  /// Address by which another process on the machine finds the memory; plain data, to be sent.
  struct Address {
    std::int64_t process = 0, file = -1;
    std::uint64_t device = 0, inode = 0, bytes = 0;
    char name[40] = {};  ///< path of its file; empty for anonymous memory
  };

  /// Makes anonymous memory: a memfd, which other processes find under its owner's /proc entry. Nothing is
  /// left behind after any end of a process. The size of /dev/shm does not limit it. Pages cost memory once
  /// they are touched. Null if the kernel refuses it.
  static std::shared_ptr<SharedMemory> create(std::size_t bytes) noexcept;
  /// Makes a file in /dev/shm, for processes that cannot reach each other's /proc entries. Null if there is
  /// not enough space (containers often have 64 MB). Call `take_room` before the memory is touched, and
  /// `forget_name` as soon as every process has opened the file.
  static std::shared_ptr<SharedMemory> create_file(std::size_t bytes) noexcept;
  /// Maps the memory of another process, which must hold it meanwhile. Null if it cannot be reached: another
  /// container may have process numbers, or a /dev/shm, of its own.
  static std::shared_ptr<SharedMemory> open(const Address& address) noexcept;

  enum class Backing { anonymous, file };
  /// Makes memory that every rank of a node maps, of the first of `backings` that the node can do. Null, on
  /// all ranks, if the node can do none. Collective over `node_comm`.
  static std::shared_ptr<SharedMemory> of_node(const MpiComm& node_comm, std::size_t bytes,
                                               std::initializer_list<Backing> backings = {Backing::anonymous,
                                                                                          Backing::file});

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Address address() const noexcept;
  /// Takes the pages of `bytes` bytes from byte `first` on, and leaves some space to other programs. Returns
  /// false if there is not enough space.
  bool take_room(std::size_t first, std::size_t bytes) const noexcept;
  /// Maps the first `bytes` at this address, for this process alone: a write copies the page. Replaces what
  /// is mapped there. Returns false if the kernel refuses.
  bool map_private(std::byte* address, std::size_t bytes) const noexcept;
  /// Closes the file: the memory stays mapped, and cannot be mapped once more. A process may have a limited
  /// number of open files.
  void close_file() noexcept { file_ = FileDescriptor(); }
  /// Removes the file's name: no process can open the file any more, and nothing is left when the last
  /// process ends.
  void forget_name() noexcept;

 private:
  SharedMemory(FileDescriptor file, std::byte* data, std::size_t bytes)
      : file_(std::move(file)), data_(data), bytes_(bytes) {}
  static std::shared_ptr<SharedMemory> map(FileDescriptor file, std::size_t bytes) noexcept;

  FileDescriptor file_;
  char name_[sizeof(Address::name)] = {};  ///< path of a file that this process has made and not yet removed
  std::byte* data_;
  std::size_t bytes_;
};

/// Memory that all ranks of a node see: a segment for each rank.
class SharedWindow {
 public:
  /// Allocates `bytes` (above 0) for each rank, zeroed, on pages of their own; large segments begin on huge
  /// pages. Absent, on all ranks, if the node cannot do it. Collective over `node_comm`.
  static std::optional<SharedWindow> allocate(const MpiComm& node_comm, std::size_t bytes);

  /// Address of a rank's segment.
  std::byte* segment(int rank) const noexcept {
    return memory_->data() + static_cast<std::size_t>(rank) * distance_;
  }
  /// Index of this rank's segment.
  int rank() const noexcept { return rank_; }
  std::byte* own() const noexcept { return segment(rank_); }
  std::size_t bytes() const noexcept { return bytes_; }
  bool contains(const void* address) const noexcept { return address >= own() && address < own() + bytes_; }
  /// This rank's segment, which may outlive the window.
  std::shared_ptr<std::byte> share_own() const noexcept { return {memory_, own()}; }
  /// Returns whether a result of `share_own` is still in use.
  bool is_shared() const noexcept { return memory_.use_count() > 1; }

 private:
  SharedWindow(std::shared_ptr<SharedMemory> memory, std::size_t bytes, std::size_t distance, int rank)
      : memory_(std::move(memory)), bytes_(bytes), distance_(distance), rank_(rank) {}

  std::shared_ptr<SharedMemory> memory_;
  std::size_t bytes_, distance_;  ///< of a segment; from one segment to the next
  int rank_;
};

}  // namespace cxtrain
