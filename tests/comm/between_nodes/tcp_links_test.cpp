#include "cxtrain/comm/between_nodes/tcp_links.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/between_nodes/courier.h"
#include "support/catch.h"
#include "support/sum_in_place.h"

namespace cxtrain {
namespace {

std::pair<FileDescriptor, FileDescriptor> connected_sockets() {
  std::array<int, 2> both{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both.data()) == 0);
  return {FileDescriptor(both[0]), FileDescriptor(both[1])};
}

/// Carries bytes between two sockets until a socket closes, or until `most` bytes have gone from `from` to
/// `to`; then closes both, as the kernel does for a process that has been killed. Returns the bytes from
/// `from` to `to`.
std::size_t carry_bytes(FileDescriptor from, FileDescriptor to, std::size_t most) {
  std::array<char, 64> bytes;
  std::size_t carried = 0;
  while (carried < most) {
    std::array<pollfd, 2> both{pollfd{from.get(), POLLIN, 0}, pollfd{to.get(), POLLIN, 0}};
    poll(both.data(), both.size(), -1);
    for (const bool there : {false, true}) {
      if (both[there ? 0 : 1].revents == 0) continue;
      const ssize_t n = recv(there ? from.get() : to.get(), bytes.data(),
                             there ? std::min(bytes.size(), most - carried) : bytes.size(), 0);
      if (n <= 0) return carried;
      const auto size = static_cast<std::size_t>(n);
      if (send(there ? to.get() : from.get(), bytes.data(), size, MSG_NOSIGNAL) != n) return carried;
      if (there) carried += size;
    }
  }
  return carried;
}

/// The end of a sum on one of two nodes.
struct Outcome {
  std::vector<float> values;
  std::string error;  ///< empty: the sum is complete
};

constexpr std::size_t kCount = 30, kChunkBytes = 16;

Outcome sum_over_nodes(int node, FileDescriptor socket) {
  std::vector<FileDescriptor> sockets(2);
  sockets[static_cast<std::size_t>(1 - node)] = std::move(socket);
  TcpLinks links(node, std::move(sockets));
  CourierExchanges exchanges{SliceExchange(links, kChunkBytes), PartExchange(links, kChunkBytes)};
  Outcome outcome;
  for (std::size_t i = 0; i < kCount; ++i)
    outcome.values.push_back(static_cast<float>(i) + 100.0F * static_cast<float>(node));
  test::SumInPlace sum(outcome.values);
  Exchange& exchange = sum.begin(exchanges);
  try {
    while (!exchange.done()) {
      if (!exchange.proceed()) links.wait();
    }
  } catch (const CommunicationError& error) {
    outcome.error = error.what();
  }
  return outcome;
}

/// Sums over two nodes. Node 1 is killed when `most` of its bytes have reached node 0, which has `outcome`.
/// Returns the bytes.
std::size_t sum_until_killed(std::size_t most, Outcome& outcome) {
  auto [of_node_0, wire_0] = connected_sockets();
  auto [of_node_1, wire_1] = connected_sockets();
  std::size_t carried = 0;
  {
    const std::jthread node_0(
        [&, socket = std::move(of_node_0)]() mutable { outcome = sum_over_nodes(0, std::move(socket)); });
    const std::jthread node_1(
        [&, socket = std::move(of_node_1)]() mutable { sum_over_nodes(1, std::move(socket)); });
    const std::jthread wire([&, from = std::move(wire_1), to = std::move(wire_0)]() mutable {
      carried = carry_bytes(std::move(from), std::move(to), most);
    });
  }
  return carried;
}

TEST_CASE("a rank that is killed after any byte ends the sum of the other node with an error",
          "[tcp_links]") {
  Outcome undisturbed;
  const std::size_t whole = sum_until_killed(SIZE_MAX, undisturbed);
  REQUIRE(undisturbed.error.empty());
  REQUIRE(whole >= kCount * sizeof(float));
  for (std::size_t i = 0; i < kCount; ++i) CHECK(undisturbed.values[i] == 2 * static_cast<float>(i) + 100.0F);
  for (std::size_t most = 0; most <= whole; ++most) {
    Outcome outcome;
    CAPTURE(most, whole);
    sum_until_killed(most, outcome);
    // The kernel may report a closed connection before node 0 has read the last bytes.
    if (outcome.error.empty()) {
      CHECK(most == whole);
      CHECK(outcome.values == undisturbed.values);
    } else {
      CHECK(outcome.error.find("the connection to node 1 broke: ") == 0);
    }
  }
}

}  // namespace
}  // namespace cxtrain
