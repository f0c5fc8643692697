#include "cxtrain/comm/between_nodes/tcp_links.h"

// glibc's <netinet/tcp.h> lacks the newer fields of tcp_info, and cannot be included beside this header.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/network.h"
#include "cxtrain/comm/between_nodes/tcp_handshake.h"
#include "cxtrain/device/core_share.h"

namespace cxtrain {
namespace {

/// Addresses and secret of a rank, for the other ranks of its rail.
struct Listener {
  std::array<std::uint32_t, kMaxAddresses> addresses{};  ///< of `network_addresses`; 0: none
  std::array<char, 40> machine{};                        ///< `machine_id`
  std::uint64_t token = 0;                               ///< of the job: the first node's counts
  std::uint32_t port = 0;                                ///< 0: cannot listen
};
static_assert(std::is_trivially_copyable_v<Listener>);

/// Where ranks on this machine, or on another one, reach the listener.
std::vector<std::uint32_t> addresses_of(const Listener& listener, bool same_machine) {
  std::vector<std::uint32_t> addresses(listener.addresses.begin(), listener.addresses.end());
  std::erase(addresses, 0U);
  if (same_machine) addresses.push_back(htonl(INADDR_LOOPBACK));
  return addresses;
}

[[noreturn]] void throw_broken(int node, const std::string& why) {
  throw CommunicationError("the connection to node " + std::to_string(node) + " broke: " + why,
                           MessageCode::rank_lost);
}

/// Drops the first `moved` bytes of a queue.
template <class Bytes>
void drop_front(std::deque<Bytes>& queue, std::size_t moved) {
  while (!queue.empty() && moved >= queue.front().size()) {
    moved -= queue.front().size();
    queue.pop_front();
  }
  if (moved > 0) queue.front() = queue.front().subspan(moved);
}

/// Moves bytes of a queue by `call`, sendmsg or recvmsg, until `call` would wait. Returns their number.
template <class Bytes, class Call>
std::uint64_t move_some(std::deque<Bytes>& queue, int node, const Call& call) {
  std::uint64_t moved = 0;
  while (!queue.empty()) {
    std::array<iovec, 16> pieces;
    msghdr message{};
    message.msg_iov = pieces.data();
    for (; message.msg_iovlen < std::min(queue.size(), pieces.size()); ++message.msg_iovlen) {
      const Bytes& next = queue[message.msg_iovlen];
      pieces[message.msg_iovlen] = {const_cast<std::byte*>(next.data()), next.size()};
    }
    const ssize_t n = call(message);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0)
      throw_broken(node, std::generic_category().message(errno) + "; look at the node and its network");
    if (n == 0) throw_broken(node, "its rank has ended; the log of that rank has the cause");
    drop_front(queue, static_cast<std::size_t>(n));
    moved += static_cast<std::uint64_t>(n);
  }
  return moved;
}

/// Returns the use of a socket's connection to a node, as the kernel counts it. Absent if the kernel does not
/// (before Linux 4.10).
std::optional<ConnectionUse> use_of_connection(int socket, int node) {
  tcp_info info{};
  socklen_t size = sizeof info;
  constexpr std::size_t kNeeded = offsetof(tcp_info, tcpi_busy_time) + sizeof info.tcpi_busy_time;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || size < kNeeded) return std::nullopt;
  return ConnectionUse{.node = node,
                       .bytes = static_cast<std::int64_t>(info.tcpi_bytes_acked),
                       .seconds = 1e-6 * static_cast<double>(info.tcpi_busy_time)};
}

}  // namespace

std::unique_ptr<TcpLinks> TcpLinks::open(const MpiComm& rail, double seconds) {
  const int node = rail.rank(), nodes = rail.size();
  TcpHandshake handshake(node, nodes);
  Listener own{.token = random_token(), .port = handshake.port()};
  machine_id().copy(own.machine.data(), own.machine.size() - 1);
  const std::vector<std::uint32_t> addresses = network_addresses();
  std::copy(addresses.begin(), addresses.end(), own.addresses.begin());
  std::vector<Listener> listeners(static_cast<std::size_t>(nodes));
  rail.call("an allgather of addresses", [&](MPI_Comm ranks) {
    return MPI_Allgather(&own, sizeof own, MPI_BYTE, listeners.data(), sizeof own, MPI_BYTE, ranks);
  });
  for (const Listener& each : listeners) {
    if (each.port == 0) return nullptr;
  }
  const std::uint64_t token = listeners[0].token;
  const TcpHandshake::Time deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(std::llround(seconds * 1e3));
  for (int peer = 0; peer < node; ++peer) {
    const Listener& listener = listeners[static_cast<std::size_t>(peer)];
    if (!handshake.connect(peer, addresses_of(listener, listener.machine == own.machine),
                           static_cast<std::uint16_t>(listener.port), token, deadline))
      return nullptr;
  }
  if (!handshake.accept_larger(token, deadline)) return nullptr;
  return std::make_unique<TcpLinks>(node, handshake.take());
}

TcpLinks::TcpLinks(int node, std::vector<FileDescriptor> sockets)
    : node_(node), streams_(sockets.size()), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    if (!sockets[i]) continue;
    const int on = 1;
    setsockopt(sockets[i].get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    streams_[i].socket = std::move(sockets[i]);
  }
}

std::uint64_t TcpLinks::send(int node, std::span<const std::byte> bytes) {
  Stream& to = stream(node);
  if (!bytes.empty()) to.outgoing.push_back(bytes);
  return to.to_send += bytes.size();
}

std::uint64_t TcpLinks::receive(int node, std::span<std::byte> bytes) {
  Stream& from = stream(node);
  if (!bytes.empty()) from.incoming.push_back(bytes);
  return from.to_receive += bytes.size();
}

bool TcpLinks::proceed() {
  bool moved = false;
  for (int step = 1; step < nodes(); ++step) {
    const int node = peer_of(node_, step, nodes());
    Stream& peer = stream(node);
    const int socket = peer.socket.get();
    const std::uint64_t sent = move_some(
        peer.outgoing, node, [&](const msghdr& message) { return sendmsg(socket, &message, MSG_NOSIGNAL); });
    const std::uint64_t received =
        move_some(peer.incoming, node, [&](msghdr& message) { return recvmsg(socket, &message, 0); });
    peer.sent += sent;
    peer.received += received;
    moved = moved || sent + received > 0;
  }
  return moved;
}

void TcpLinks::wait() {
  waiting_.assign(1, {.fd = wake_.get(), .events = POLLIN, .revents = 0});
  for (const Stream& each : streams_) {
    const int events = (each.incoming.empty() ? 0 : POLLIN) | (each.outgoing.empty() ? 0 : POLLOUT);
    if (events != 0)
      waiting_.push_back({.fd = each.socket.get(), .events = static_cast<short>(events), .revents = 0});
  }
  poll(waiting_.data(), waiting_.size(), -1);
  std::uint64_t interrupts = 0;
  if ((waiting_[0].revents & POLLIN) != 0)
    static_cast<void>(::read(wake_.get(), &interrupts, sizeof interrupts));
}

void TcpLinks::interrupt() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

std::vector<ConnectionUse> TcpLinks::use() const {
  std::vector<ConnectionUse> found;
  for (int node = 0; node < nodes(); ++node) {
    if (node == node_) continue;
    if (const auto use = use_of_connection(stream(node).socket.get(), node)) found.push_back(*use);
  }
  return found;
}

std::string TcpLinks::congestion_control() const {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX of the kernel
  socklen_t size = name.size() - 1;
  const Stream& next = stream(peer_of(node_, 1, nodes()));
  return getsockopt(next.socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0 ? name.data()
                                                                                             : "";
}

bool TcpLinks::set_congestion_control(const std::string& algorithm) {
  return std::ranges::all_of(streams_, [&](const Stream& each) {
    return !each.socket || setsockopt(each.socket.get(), IPPROTO_TCP, TCP_CONGESTION, algorithm.data(),
                                      static_cast<socklen_t>(algorithm.size())) == 0;
  });
}

}  // namespace cxtrain
