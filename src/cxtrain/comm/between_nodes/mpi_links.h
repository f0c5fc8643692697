#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/between_nodes/links.h"

namespace cxtrain {

/// Messages of MPI to one rank of each other node, and from it: for networks that only MPI knows. Only the
/// thread that may call MPI uses the links. Both sides of a link cut its bytes in the same places: `receive`
/// gets as many bytes as the other node's `send`.
class MpiLinks final : public Links {
 public:
  /// `rail`, which outlives the links, has one rank on each node, in the order of the nodes.
  /// Nothing may be under way when the links are destroyed.
  explicit MpiLinks(const MpiComm& rail);

  int node() const override { return node_; }
  int nodes() const override { return static_cast<int>(outgoing_.size()); }
  std::uint64_t send(int node, std::span<const std::byte> bytes) override;
  std::uint64_t receive(int node, std::span<std::byte> bytes) override;
  std::uint64_t sent(int node) const override { return outgoing_[static_cast<std::size_t>(node)].moved; }
  std::uint64_t received(int node) const override { return incoming_[static_cast<std::size_t>(node)].moved; }
  bool proceed() override;
  /// Gives the core to another process, and returns: MPI has no wait that others could end.
  void wait() override;
  void interrupt() noexcept override {}

 private:
  struct Message {
    MPI_Request request;
    std::size_t bytes;
  };
  /// Messages in one direction of a link, in the order in which they began.
  struct Queue {
    std::deque<Message> messages;
    std::uint64_t begun = 0, moved = 0;  ///< bytes
  };

  /// Counts the messages at the front of the queues that have moved. Returns whether there was one.
  bool count_moved();

  const MpiComm& rail_;
  int node_;
  std::vector<Queue> outgoing_, incoming_;  ///< by node
  std::vector<Queue*> waiting_;             ///< queues that have a message
  std::vector<MPI_Request> requests_;       ///< of the first message of each
  std::vector<int> indices_;                ///< of requests that are complete
};

}  // namespace cxtrain
