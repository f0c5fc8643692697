#include "cxtrain/comm/shared_window.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include "cxtrain/base/align.h"

namespace cxtrain {
namespace {

constexpr const char* kOperation = "shared memory of the node's ranks";

/// Open MPI backs shared windows by files in /dev/shm where it exists.
bool shared_memory_has_room(std::size_t bytes) {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) return true;
  const std::size_t available = static_cast<std::size_t>(info.f_bavail) * info.f_frsize;
  constexpr std::size_t kReserve = std::size_t{4} << 20;  // for MPI itself and its transports
  return bytes + kReserve <= available;
}

/// MPI promises no alignment. A segment lies at the same offset of a page in every process, so that all of
/// them round its address alike.
std::byte* aligned(void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return reinterpret_cast<std::byte*>(round_up<std::uintptr_t>(number, kCacheLine));
}

}  // namespace

std::optional<SharedWindow> SharedWindow::allocate(const MpiComm& node_comm, std::size_t bytes,
                                                   Backing first_choice) {
  if (first_choice == Backing::anonymous) {
    if (std::optional<SharedWindow> window = from_anonymous_memory(node_comm, bytes)) return window;
  }
  return from_mpi(node_comm, bytes);
}

std::optional<SharedWindow> SharedWindow::from_anonymous_memory(const MpiComm& node_comm, std::size_t bytes) {
  const int ranks = node_comm.size(), rank = node_comm.rank();
  const std::shared_ptr<SharedMemory> mine = SharedMemory::create(bytes);
  std::vector<SharedMemory::Address> addresses(static_cast<std::size_t>(ranks));
  const SharedMemory::Address address = mine != nullptr ? mine->address() : SharedMemory::Address{};
  constexpr int kAddress = sizeof(SharedMemory::Address);
  node_comm.call(kOperation, [&](MPI_Comm node) {
    return MPI_Allgather(&address, kAddress, MPI_BYTE, addresses.data(), kAddress, MPI_BYTE, node);
  });
  std::vector<std::shared_ptr<SharedMemory>> memory;
  std::vector<std::byte*> segments;
  for (const SharedMemory::Address& other : addresses) {
    const bool own = segments.size() == static_cast<std::size_t>(rank);
    memory.push_back(own ? mine : other.file >= 0 ? SharedMemory::open(other) : nullptr);
    segments.push_back(memory.back() != nullptr ? memory.back()->data() : nullptr);
  }
  const bool complete = std::find(segments.begin(), segments.end(), nullptr) == segments.end();
  if (!node_comm.on_all_ranks(kOperation, complete)) return std::nullopt;
  SharedWindow result(bytes, std::move(segments), rank);
  result.memory_ = std::move(memory);
  return result;
}

std::optional<SharedWindow> SharedWindow::from_mpi(const MpiComm& node_comm, std::size_t bytes) {
  const int ranks = node_comm.size(), rank = node_comm.rank();
  const bool room = shared_memory_has_room(bytes * static_cast<std::size_t>(ranks));
  if (!node_comm.on_all_ranks(kOperation, room)) return std::nullopt;

  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "alloc_shared_noncontig", "true");  // each segment on pages of its own, near its rank
  void* base = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  node_comm.call("MPI_Win_allocate_shared", [&](MPI_Comm node) {
    return MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes + kCacheLine), 1, info, node, &base, &window);
  });
  MPI_Info_free(&info);

  std::vector<std::byte*> segments;
  for (int other = 0; other < ranks; ++other) {
    MPI_Aint size = 0;
    int unit = 0;
    void* address = nullptr;
    check_mpi(MPI_Win_shared_query(window, other, &size, &unit, &address), "MPI_Win_shared_query");
    segments.push_back(aligned(address));
  }
  SharedWindow result(bytes, std::move(segments), rank);
  result.window_ = window;
  result.watchdog_ = &node_comm.watchdog();
  std::memset(result.mine(), 0, bytes);
  node_comm.call(kOperation, [](MPI_Comm node) { return MPI_Barrier(node); });
  return result;
}

SharedWindow::SharedWindow(std::size_t bytes, std::vector<std::byte*> segments, int rank)
    : bytes_(bytes), segments_(std::move(segments)), rank_(rank) {}

SharedWindow::SharedWindow(SharedWindow&& other) noexcept
    : bytes_(other.bytes_),
      segments_(std::move(other.segments_)),
      rank_(other.rank_),
      memory_(std::move(other.memory_)),
      window_(std::exchange(other.window_, MPI_WIN_NULL)),
      watchdog_(other.watchdog_) {}

SharedWindow::~SharedWindow() {
  // Freeing an MPI window waits for the other ranks, which a rank on its way out after an error must not: the
  // job ends with it.
  if (window_ == MPI_WIN_NULL || std::uncaught_exceptions() > exceptions_) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  const Watchdog::Wait wait(*watchdog_, "the end of shared memory");
  MPI_Win_free(&window_);
}

}  // namespace cxtrain
