#include "cxtrain/comm/between_nodes/mpi_links.h"

#include <thread>

namespace cxtrain {
namespace {

constexpr int kExchangeTag = 7;

}  // namespace

MpiLinks::MpiLinks(const MpiComm& rail)
    : rail_(rail),
      node_(rail.rank()),
      outgoing_(static_cast<std::size_t>(rail.size())),
      incoming_(static_cast<std::size_t>(rail.size())) {}

std::uint64_t MpiLinks::send(int node, std::span<const std::byte> bytes) {
  Queue& queue = outgoing_[static_cast<std::size_t>(node)];
  if (!bytes.empty()) {
    Message message{MPI_REQUEST_NULL, bytes.size()};
    // A send that MPI has only buffered would count as complete, and might wait for this rank's next call.
    check_mpi(MPI_Issend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, node, kExchangeTag,
                         rail_.get(), &message.request),
              "a message between nodes");
    queue.messages.push_back(message);
  }
  return queue.begun += bytes.size();
}

std::uint64_t MpiLinks::receive(int node, std::span<std::byte> bytes) {
  Queue& queue = incoming_[static_cast<std::size_t>(node)];
  if (!bytes.empty()) {
    Message message{MPI_REQUEST_NULL, bytes.size()};
    check_mpi(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, node, kExchangeTag,
                        rail_.get(), &message.request),
              "a message between nodes");
    queue.messages.push_back(message);
  }
  return queue.begun += bytes.size();
}

bool MpiLinks::proceed() {
  bool moved = false;
  while (count_moved()) moved = true;
  return moved;
}

bool MpiLinks::count_moved() {
  waiting_.clear();
  requests_.clear();
  for (std::vector<Queue>* const queues : {&incoming_, &outgoing_}) {
    for (Queue& queue : *queues) {
      if (queue.messages.empty()) continue;
      waiting_.push_back(&queue);
      requests_.push_back(queue.messages.front().request);
    }
  }
  if (requests_.empty()) return false;
  indices_.resize(requests_.size());
  int complete = 0;
  check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &complete, indices_.data(),
                         MPI_STATUSES_IGNORE),
            "messages between nodes");
  for (int i = 0; i < complete; ++i) {
    Queue& queue = *waiting_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
    queue.moved += queue.messages.front().bytes;
    queue.messages.pop_front();
  }
  return complete > 0;
}

void MpiLinks::wait() { std::this_thread::yield(); }

}  // namespace cxtrain
