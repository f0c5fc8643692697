#include "cxtrain/comm/between_nodes/tcp_info.h"

// glibc's <netinet/tcp.h> lacks the newer fields of tcp_info, and cannot be included beside this header.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace cxtrain {

std::optional<ConnectionUse> use_of_connection(int socket, int node) {
  tcp_info info{};
  socklen_t size = sizeof info;
  constexpr std::size_t kNeeded = offsetof(tcp_info, tcpi_busy_time) + sizeof info.tcpi_busy_time;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || size < kNeeded) return std::nullopt;
  return ConnectionUse{.node = node,
                       .bytes = static_cast<std::int64_t>(info.tcpi_bytes_acked),
                       .seconds = 1e-6 * static_cast<double>(info.tcpi_busy_time)};
}

}  // namespace cxtrain
