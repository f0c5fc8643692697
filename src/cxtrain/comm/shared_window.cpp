#include "cxtrain/comm/shared_window.h"

#include <sys/statvfs.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

#include "cxtrain/cluster/mpi_world.h"

namespace cxtrain {
namespace {

/// Open MPI backs shared windows by files in /dev/shm where it exists.
bool shared_memory_has_room(std::size_t bytes) {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) return true;
  const std::size_t available = static_cast<std::size_t>(info.f_bavail) * info.f_frsize;
  constexpr std::size_t kReserve = std::size_t{4} << 20;  // for MPI itself and its transports
  return bytes + kReserve <= available;
}

constexpr std::size_t kCacheLine = 64;

/// MPI promises no alignment. A segment lies at the same offset of a page in every process, so that all of
/// them round its address alike.
std::byte* aligned(void* address) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return reinterpret_cast<std::byte*>((number + kCacheLine - 1) / kCacheLine * kCacheLine);
}

}  // namespace

std::optional<SharedWindow> SharedWindow::allocate(MPI_Comm node_comm, std::size_t bytes) {
  int ranks = 0, rank = 0;
  MPI_Comm_size(node_comm, &ranks);
  MPI_Comm_rank(node_comm, &rank);
  int room = shared_memory_has_room(bytes * static_cast<std::size_t>(ranks)) ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &room, 1, MPI_INT, MPI_MIN, node_comm), "MPI_Allreduce");
  if (room == 0) return std::nullopt;

  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "alloc_shared_noncontig", "true");  // each segment on pages of its own, near its rank
  void* base = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  const int status =
      MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes + kCacheLine), 1, info, node_comm, &base, &window);
  MPI_Info_free(&info);
  check_mpi(status, "MPI_Win_allocate_shared");

  std::vector<std::byte*> segments;
  for (int other = 0; other < ranks; ++other) {
    MPI_Aint size = 0;
    int unit = 0;
    void* address = nullptr;
    check_mpi(MPI_Win_shared_query(window, other, &size, &unit, &address), "MPI_Win_shared_query");
    segments.push_back(aligned(address));
  }
  SharedWindow result(window, bytes, aligned(base), std::move(segments));
  std::memset(result.mine(), 0, bytes);
  check_mpi(MPI_Barrier(node_comm), "MPI_Barrier");
  return result;
}

SharedWindow::SharedWindow(MPI_Win window, std::size_t bytes, std::byte* mine,
                           std::vector<std::byte*> segments)
    : window_(window), bytes_(bytes), mine_(mine), segments_(std::move(segments)) {}

SharedWindow::SharedWindow(SharedWindow&& other) noexcept
    : window_(std::exchange(other.window_, MPI_WIN_NULL)),
      bytes_(std::exchange(other.bytes_, 0)),
      mine_(std::exchange(other.mine_, nullptr)),
      segments_(std::move(other.segments_)) {}

SharedWindow::~SharedWindow() {
  // Freeing waits for the other ranks, which a rank on its way out after an error must not: the job ends with
  // it.
  if (window_ == MPI_WIN_NULL || std::uncaught_exceptions() > 0) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Win_free(&window_);
}

}  // namespace cxtrain
