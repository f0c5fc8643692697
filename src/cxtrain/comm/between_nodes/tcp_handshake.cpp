#include "cxtrain/comm/between_nodes/tcp_handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <type_traits>

#include "cxtrain/cluster/network.h"

namespace cxtrain {
namespace {

using Steady = std::chrono::steady_clock;

/// The first bytes of a connection, in both directions.
struct Greeting {
  std::uint64_t magic = 0x63787472'61696e31;  // "cxtrain1"
  std::uint64_t token = 0;
  std::uint32_t from = 0, to = 0;
  bool operator==(const Greeting&) const = default;
};
static_assert(std::is_trivially_copyable_v<Greeting> && sizeof(Greeting) == 24);

Greeting greeting(std::uint64_t token, int from, int to) {
  Greeting result;
  result.token = token;
  result.from = static_cast<std::uint32_t>(from);
  result.to = static_cast<std::uint32_t>(to);
  return result;
}

bool wait_for(const FileDescriptor& socket, short events, TcpHandshake::Time deadline) {
  pollfd waiting{.fd = socket.get(), .events = events, .revents = 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
    const int ready = poll(&waiting, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

FileDescriptor tcp_socket() {
  return FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

FileDescriptor connect_to(std::uint32_t address, std::uint16_t port, TcpHandshake::Time deadline) {
  FileDescriptor socket = tcp_socket();
  const sockaddr_in to = socket_address(address, port);
  if (!socket) return socket;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return socket;
  if (errno != EINPROGRESS || !wait_for(socket, POLLOUT, deadline)) return FileDescriptor();
  int error = 0;
  socklen_t size = sizeof error;
  const bool asked = getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0;
  return asked && error == 0 ? std::move(socket) : FileDescriptor();
}

/// A new connection has room for a greeting.
bool write_greeting(const FileDescriptor& socket, const Greeting& greeting, TcpHandshake::Time deadline) {
  return wait_for(socket, POLLOUT, deadline) &&
         ::send(socket.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting;
}

/// The greeting of the other side; none if no whole one comes.
std::optional<Greeting> read_greeting(const FileDescriptor& socket, TcpHandshake::Time deadline) {
  Greeting greeting;
  auto* const bytes = reinterpret_cast<std::byte*>(&greeting);
  std::size_t have = 0;
  while (have < sizeof greeting) {
    if (!wait_for(socket, POLLIN, deadline)) return std::nullopt;
    const ssize_t n = recv(socket.get(), bytes + have, sizeof greeting - have, 0);
    if (n > 0) {
      have += static_cast<std::size_t>(n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      return std::nullopt;
    }
  }
  return greeting;
}

}  // namespace

TcpHandshake::TcpHandshake(int self, int peers)
    : self_(self), listener_(tcp_socket()), sockets_(static_cast<std::size_t>(peers)) {
  constexpr int kStrangers = 16;
  sockaddr_in any = socket_address(INADDR_ANY, 0);
  socklen_t size = sizeof any;
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  if (listener_ && bind(listener_.get(), address, size) == 0 &&
      listen(listener_.get(), peers + kStrangers) == 0 && getsockname(listener_.get(), address, &size) == 0)
    port_ = ntohs(any.sin_port);
}

bool TcpHandshake::connect(int peer, std::span<const std::uint32_t> addresses, std::uint16_t port,
                           std::uint64_t token, Time deadline) {
  constexpr std::chrono::seconds kAnAddress{3};
  for (const std::uint32_t address : addresses) {
    FileDescriptor socket = connect_to(address, port, std::min(deadline, Steady::now() + kAnAddress));
    if (!socket || !write_greeting(socket, greeting(token, self_, peer), deadline)) continue;
    // The peer answers once it has the connections that it makes itself.
    if (read_greeting(socket, deadline) != greeting(token, peer, self_)) continue;
    socket_of(peer) = std::move(socket);
    return true;
  }
  return false;
}

bool TcpHandshake::accept_larger(std::uint64_t token, Time deadline) {
  constexpr std::chrono::seconds kAGreeting{1};  // ranks of the job greet at once
  const int peers = static_cast<int>(sockets_.size());
  int missing = peers - 1 - self_;
  while (missing > 0) {
    if (!wait_for(listener_, POLLIN, deadline)) return false;
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) continue;
    const std::optional<Greeting> came =
        read_greeting(socket, std::min(deadline, Steady::now() + kAGreeting));
    if (!came) continue;
    const auto peer = static_cast<std::int64_t>(came->from);
    if (peer <= self_ || peer >= peers || *came != greeting(token, static_cast<int>(peer), self_)) continue;
    FileDescriptor& place = socket_of(static_cast<int>(peer));
    if (place || !write_greeting(socket, greeting(token, self_, static_cast<int>(peer)), deadline)) continue;
    place = std::move(socket);
    --missing;
  }
  return true;
}

}  // namespace cxtrain
