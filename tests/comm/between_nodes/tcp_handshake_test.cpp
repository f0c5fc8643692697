#include "cxtrain/comm/between_nodes/tcp_handshake.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

constexpr std::uint64_t kToken = 0x123456789abcdef0;
const std::array<std::uint32_t, 1> kLoopback{htonl(INADDR_LOOPBACK)};

TcpHandshake::Time within(double seconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int>(seconds * 1e3));
}

/// A connection of somebody who sends these bytes.
FileDescriptor stranger(std::uint16_t port, const std::string& bytes) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = kLoopback[0];
  to.sin_port = htons(port);
  REQUIRE(connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return socket;
}

std::string greeting_bytes(std::uint64_t magic, std::uint64_t token, std::uint32_t from, std::uint32_t to) {
  std::string bytes(24, '\0');
  std::memcpy(bytes.data(), &magic, 8);
  std::memcpy(bytes.data() + 8, &token, 8);
  std::memcpy(bytes.data() + 16, &from, 4);
  std::memcpy(bytes.data() + 20, &to, 4);
  return bytes;
}

/// All peers in threads of this process; whether each got its connections.
std::vector<char> meet(std::vector<TcpHandshake>& peers, const std::vector<std::uint64_t>& tokens,
                       TcpHandshake::Time deadline) {
  std::vector<char> connected(peers.size(), 0);
  std::vector<std::jthread> threads;
  for (std::size_t self = 0; self < peers.size(); ++self) {
    threads.emplace_back([&, self] {
      bool all = true;
      for (std::size_t other = 0; other < self; ++other)
        all = all && peers[self].connect(static_cast<int>(other), kLoopback, peers[other].port(),
                                         tokens[self], deadline);
      connected[self] = all && peers[self].accept_larger(tokens[self], deadline) ? 1 : 0;
    });
  }
  threads.clear();
  return connected;
}

TEST_CASE("peers with one token connect in pairs, although strangers were there before") {
  std::vector<TcpHandshake> peers;
  for (int self = 0; self < 4; ++self) peers.emplace_back(self, 4);
  constexpr std::uint64_t kMagic = 0x6378747261696e31;
  std::vector<FileDescriptor> strangers;
  for (TcpHandshake& peer : peers) {
    REQUIRE(peer.port() != 0);
    strangers.push_back(stranger(peer.port(), ""));  // says nothing
    strangers.push_back(stranger(peer.port(), "GET / HTTP/1.1\r\nHost: node1\r\n\r\n"));
    strangers.push_back(stranger(peer.port(), greeting_bytes(kMagic, kToken + 1, 3, 0)));
    strangers.push_back(stranger(peer.port(), greeting_bytes(kMagic, kToken, 4, 0)));
    strangers.push_back(stranger(peer.port(), greeting_bytes(kMagic, kToken, 0xffffffff, 0)));
    strangers.push_back(stranger(peer.port(), greeting_bytes(kMagic, kToken, 3, 7)));
  }
  CHECK(meet(peers, std::vector<std::uint64_t>(4, kToken), within(20)) == std::vector<char>(4, 1));
  for (std::size_t self = 0; self < peers.size(); ++self) {
    const std::vector<FileDescriptor> sockets = peers[self].take();
    for (std::size_t other = 0; other < sockets.size(); ++other)
      CHECK(static_cast<bool>(sockets[other]) == (other != self));
  }
}

TEST_CASE("a peer with another token does not get in, and nobody waits beyond the deadline") {
  std::vector<TcpHandshake> peers;
  for (int self = 0; self < 2; ++self) peers.emplace_back(self, 2);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(meet(peers, {kToken, kToken + 1}, within(1)) == std::vector<char>(2, 0));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("a port at which nobody listens is no peer") {
  TcpHandshake first(0, 2), second(1, 2);
  const std::uint16_t port = first.port();
  { const TcpHandshake closed = std::move(first); }
  CHECK_FALSE(second.connect(0, kLoopback, port, kToken, within(5)));
}

}  // namespace
}  // namespace cxtrain
