#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cxtrain {

/// Returns the node to which `node` sends at this step, from 1 to `nodes` - 1. Each node begins with its
/// neighbour: in one order for all nodes, all would send to one node at a time.
inline int peer_of(int node, int step, int nodes) { return (node + step) % nodes; }

/// Streams of bytes between this rank and one rank of each other node, in both directions. The bytes of a
/// stream arrive in the order of sending. One thread uses the links, except for `interrupt`. Errors: a
/// CommunicationError.
class Links {
 public:
  virtual ~Links() = default;

  virtual int node() const = 0;   ///< of this rank, in [0, nodes())
  virtual int nodes() const = 0;  ///< at least 2

  /// Appends bytes to the stream to another node, and returns what `sent(node)` will be once they have left.
  /// Until then they must not change.
  virtual std::uint64_t send(int node, std::span<const std::byte> bytes) = 0;
  /// Appends memory for what comes from another node, and returns what `received(node)` will be once the
  /// memory is full.
  virtual std::uint64_t receive(int node, std::span<std::byte> bytes) = 0;
  /// Bytes that have left for a node, and that have come from a node, since the links were made.
  virtual std::uint64_t sent(int node) const = 0;
  virtual std::uint64_t received(int node) const = 0;

  /// Moves what can move without waiting. Returns whether any byte moved.
  virtual bool proceed() = 0;
  /// Waits until `proceed` can move a byte, or until `interrupt`; may return earlier.
  virtual void wait() = 0;
  /// Ends the wait, or the next wait. Any thread may call it.
  virtual void interrupt() noexcept = 0;
};

/// Returns whether the bytes of an exchange have left for all other nodes, and have come from all other
/// nodes. `peers`: by node. `sent`, `received`: the members with the results of `Links::send` and
/// `Links::receive`.
template <class Peer>
bool have_moved(const Links& links, const std::vector<Peer>& peers, std::uint64_t Peer::*sent,
                std::uint64_t Peer::*received) {
  for (int node = 0; node < links.nodes(); ++node) {
    const Peer& peer = peers[static_cast<std::size_t>(node)];
    const bool moved = links.sent(node) >= peer.*sent && links.received(node) >= peer.*received;
    if (node != links.node() && !moved) return false;
  }
  return true;
}

/// An exchange over the links of a node: a state machine without a thread and without a wait.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Does all that can be done now. Returns whether that was anything.
  virtual bool proceed() = 0;
  virtual bool done() const = 0;
};

}  // namespace cxtrain
