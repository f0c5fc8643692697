#include "cxtrain/comm/shared_window.h"

namespace cxtrain {
namespace {

constexpr const char* kSharing = "shared memory of the node's ranks";

}  // namespace

std::optional<SharedWindow> SharedWindow::allocate(const MpiComm& node_comm, std::size_t bytes,
                                                   Backing first_choice) {
  std::optional<SharedWindow> window = made_of(first_choice, node_comm, bytes);
  if (!window && first_choice != Backing::file) window = made_of(Backing::file, node_comm, bytes);
  return window;
}

std::optional<SharedWindow> SharedWindow::made_of(Backing backing, const MpiComm& node_comm,
                                                  std::size_t bytes) {
  const std::shared_ptr<SharedMemory> mine =
      backing == Backing::anonymous ? SharedMemory::create(bytes) : SharedMemory::create_file(bytes);
  const SharedMemory::Address address = mine != nullptr ? mine->address() : SharedMemory::Address{};
  std::vector<SharedMemory::Address> addresses(static_cast<std::size_t>(node_comm.size()));
  constexpr int kAddress = sizeof(SharedMemory::Address);
  node_comm.call(kSharing, [&](MPI_Comm node) {
    return MPI_Allgather(&address, kAddress, MPI_BYTE, addresses.data(), kAddress, MPI_BYTE, node);
  });
  SharedWindow window;
  window.bytes_ = bytes;
  window.rank_ = node_comm.rank();
  bool complete = true;
  for (const SharedMemory::Address& other : addresses) {
    const bool own = window.memory_.size() == static_cast<std::size_t>(window.rank_);
    window.memory_.push_back(own ? mine : other.file >= 0 ? SharedMemory::open(other) : nullptr);
    complete = complete && window.memory_.back() != nullptr;
    if (complete) window.segments_.push_back(window.memory_.back()->data());
  }
  const bool everywhere = node_comm.on_all_ranks(kSharing, complete);
  if (mine != nullptr) mine->forget_name();  // everyone has opened it, or does not want it
  if (!everywhere) return std::nullopt;
  return window;
}

}  // namespace cxtrain
