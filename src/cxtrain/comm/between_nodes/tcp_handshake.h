#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/base/file_descriptor.h"

/// TCP connections between ranks that know each other's addresses and a secret of the job.
namespace cxtrain {

/// Connections of one rank that are being made: it connects to all peers with smaller numbers, and accepts
/// connections of all peers with larger numbers. Both sides of a connection show the token and name both
/// peers; a connection that shows anything else, or nothing within a second, is closed.
class TcpHandshake {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `self`: this rank's number among `peers` ones. Listens on a port of the kernel's choice.
  TcpHandshake(int self, int peers);

  /// The port of the listening socket; 0 if the kernel refuses to listen.
  std::uint16_t port() const { return port_; }

  /// Connects to a peer at one of its addresses (IPv4, in network byte order). Tries an address for at most
  /// three seconds. Returns whether the peer has answered by `deadline`.
  bool connect(int peer, std::span<const std::uint32_t> addresses, std::uint16_t port, std::uint64_t token,
               Time deadline);
  /// Accepts connections of all peers with larger numbers. Returns whether all have come by `deadline`.
  bool accept_larger(std::uint64_t token, Time deadline);

  /// The connections, by peer; none for this rank. They do not block.
  std::vector<FileDescriptor> take() { return std::move(sockets_); }

 private:
  FileDescriptor& socket_of(int peer) { return sockets_[static_cast<std::size_t>(peer)]; }

  int self_;
  std::uint16_t port_ = 0;
  FileDescriptor listener_;
  std::vector<FileDescriptor> sockets_;
};

}  // namespace cxtrain
