#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/between_nodes/links.h"
#include "cxtrain/comm/connection_use.h"

namespace cxtrain {

/// A TCP connection to one rank of each other node. The kernel sends and receives while the rank computes.
///
/// The ranks tell each other by MPI where they listen, and a token of 64 random bits, which both sides of a
/// connection show (`TcpHandshake`).
class TcpLinks final : public Links {
 public:
  /// Makes the links between the ranks of `rail`, which has one rank on each node, in the order of the
  /// nodes. Null if some rank cannot reach another within `seconds`; then other ranks may have links.
  /// Collective over `rail`.
  static std::unique_ptr<TcpLinks> open(const MpiComm& rail, double seconds);
  /// Links over connected sockets that never wait: for each node one, and none for this node.
  TcpLinks(int node, std::vector<FileDescriptor> sockets);

  int node() const override { return node_; }
  int nodes() const override { return static_cast<int>(streams_.size()); }
  std::uint64_t send(int node, std::span<const std::byte> bytes) override;
  std::uint64_t receive(int node, std::span<std::byte> bytes) override;
  std::uint64_t sent(int node) const override { return stream(node).sent; }
  std::uint64_t received(int node) const override { return stream(node).received; }
  bool proceed() override;
  void wait() override;
  void interrupt() noexcept override;

  /// Returns the use of each connection, as the kernel counts it. Any thread may call this method.
  std::vector<ConnectionUse> use() const;
  /// Returns the algorithm by which the kernel decides how fast it sends ("cubic", "bbr").
  std::string congestion_control() const;
  /// Chooses the algorithm. Returns false if the kernel refuses it; some connections may use it then.
  bool set_congestion_control(const std::string& algorithm);

 private:
  struct Stream {
    FileDescriptor socket;
    std::deque<std::span<const std::byte>> outgoing;
    std::deque<std::span<std::byte>> incoming;
    std::uint64_t to_send = 0, sent = 0, to_receive = 0, received = 0;
  };

  const Stream& stream(int node) const { return streams_[static_cast<std::size_t>(node)]; }
  Stream& stream(int node) { return streams_[static_cast<std::size_t>(node)]; }

  int node_;
  std::vector<Stream> streams_;  ///< by node; the own one has no socket
  FileDescriptor wake_;          ///< an eventfd
  std::vector<pollfd> waiting_;  ///< of `wait`
};

}  // namespace cxtrain
