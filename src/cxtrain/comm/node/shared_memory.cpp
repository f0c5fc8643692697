#include "cxtrain/comm/node/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cxtrain/base/align.h"
#include "cxtrain/base/huge_pages.h"
#include "cxtrain/cluster/mpi_comm.h"

namespace cxtrain {
namespace {

/// Left free in /dev/shm: for MPI's own transports.
constexpr std::size_t kLeftToOthers = std::size_t{4} << 20;

bool has_room(int file, std::size_t bytes) {
  struct statvfs info {};
  return fstatvfs(file, &info) == 0 &&
         static_cast<std::size_t>(info.f_bavail) * info.f_frsize >= bytes + kLeftToOthers;
}

}  // namespace

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t bytes) noexcept {
  FileDescriptor file(memfd_create("cxtrain", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return nullptr;
  return map(std::move(file), bytes);
}

std::shared_ptr<SharedMemory> SharedMemory::create_file(std::size_t bytes) noexcept {
  char name[sizeof(Address::name)] = "/dev/shm/cxtrain-XXXXXX";
  FileDescriptor file(mkostemp(name, O_CLOEXEC));
  if (!file) return nullptr;
  std::shared_ptr<SharedMemory> memory;
  if (has_room(file.get(), bytes) && ftruncate(file.get(), static_cast<off_t>(bytes)) == 0)
    memory = map(std::move(file), bytes);
  if (memory == nullptr) {
    unlink(name);
    return nullptr;
  }
  std::memcpy(memory->name_, name, sizeof name);
  return memory;
}

std::shared_ptr<SharedMemory> SharedMemory::open(const Address& address) noexcept {
  char path[64];
  if (address.name[0] != '\0') {
    std::memcpy(path, address.name, sizeof address.name);
  } else {
    std::snprintf(path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(address.process),
                  static_cast<long long>(address.file));
  }
  FileDescriptor file(::open(path, O_RDWR | O_CLOEXEC));
  if (!file) return nullptr;
  // Process numbers and names of another container may mean something else here.
  struct stat found {};
  if (fstat(file.get(), &found) != 0 || found.st_dev != address.device || found.st_ino != address.inode ||
      static_cast<std::uint64_t>(found.st_size) != address.bytes) {
    return nullptr;
  }
  return map(std::move(file), address.bytes);
}

std::shared_ptr<SharedMemory> SharedMemory::map(FileDescriptor file, std::size_t bytes) noexcept {
  std::byte* const data = reserve_addresses(bytes);
  if (data == nullptr) return nullptr;
  if (mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
    munmap(data, bytes);
    return nullptr;
  }
  // A process without memory for this much is at its end.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  auto* memory = new SharedMemory(std::move(file), data, bytes);
  return std::shared_ptr<SharedMemory>(memory);
}

bool SharedMemory::map_private(std::byte* address, std::size_t bytes) const noexcept {
  return mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_.get(), 0) != MAP_FAILED;
}

/// A write to a page for which the file system has no room kills the process. Without the first check the
/// kernel would fill the file system before it fails. The last check sees what other processes took
/// meanwhile.
bool SharedMemory::take_room(std::size_t first, std::size_t bytes) const noexcept {
  return has_room(file_.get(), bytes) &&
         posix_fallocate(file_.get(), static_cast<off_t>(first), static_cast<off_t>(bytes)) == 0 &&
         has_room(file_.get(), 0);
}

std::shared_ptr<SharedMemory> SharedMemory::of_node(const MpiComm& node_comm, std::size_t bytes,
                                                    std::initializer_list<Backing> backings) {
  constexpr const char* kOperation = "shared memory of the node's ranks";
  const bool creates = node_comm.rank() == 0;
  for (const Backing backing : backings) {
    std::shared_ptr<SharedMemory> memory;
    if (creates) memory = backing == Backing::anonymous ? create(bytes) : create_file(bytes);
    Address address = memory != nullptr ? memory->address() : Address{};
    node_comm.call(kOperation,
                   [&](MPI_Comm node) { return MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, node); });
    if (!creates && address.file >= 0) memory = open(address);
    // Each rank takes the pages of its own part: the kernel places the pages near the rank's processor.
    const auto begin_of = [&](int rank) {
      return bytes * static_cast<std::size_t>(rank) / static_cast<std::size_t>(node_comm.size());
    };
    const std::size_t first = begin_of(node_comm.rank()), last = begin_of(node_comm.rank() + 1);
    const bool complete =
        memory != nullptr && (backing == Backing::anonymous || memory->take_room(first, last - first));
    const bool everywhere = node_comm.on_all_ranks(kOperation, complete);
    if (memory != nullptr) memory->forget_name();  // everyone has opened it, or does not want it
    if (everywhere) return memory;
  }
  return nullptr;
}

SharedMemory::~SharedMemory() {
  forget_name();
  munmap(data_, bytes_);
}

void SharedMemory::forget_name() noexcept {
  if (name_[0] != '\0') unlink(name_);
  name_[0] = '\0';
}

SharedMemory::Address SharedMemory::address() const noexcept {
  struct stat found {};
  fstat(file_.get(), &found);
  Address result{getpid(), file_.get(), found.st_dev, found.st_ino, bytes_, {}};
  std::memcpy(result.name, name_, sizeof name_);
  return result;
}

std::optional<SharedWindow> SharedWindow::allocate(const MpiComm& node_comm, std::size_t bytes) {
  const std::size_t distance = round_up(bytes, bytes < kHugePage ? page_bytes() : kHugePage);
  std::shared_ptr<SharedMemory> memory =
      SharedMemory::of_node(node_comm, distance * static_cast<std::size_t>(node_comm.size()));
  if (memory == nullptr) return std::nullopt;
  memory->close_file();
  return SharedWindow(std::move(memory), bytes, distance, node_comm.rank());
}

}  // namespace cxtrain
