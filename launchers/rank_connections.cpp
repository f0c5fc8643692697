#include "launchers/rank_connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>

#include "cxtrain/base/error.h"

namespace cxtrain {
std::optional<pid_t> own_process_at(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid())
    return std::nullopt;
  return peer.pid;
}

RankConnections::RankConnections(int most)
    : address_("cxtrain-" + std::to_string(getpid()) + "-" + std::to_string(std::random_device{}())),
      listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const AbstractAddress address(address_);
  if (!listener_ || bind(listener_.get(), address.get(), address.size()) != 0 ||
      listen(listener_.get(), most) != 0) {
    throw CommunicationError("cannot watch over ranks: " + std::string(std::strerror(errno)),
                             MessageCode::launch_failed);
  }
}

std::vector<RankConnections::Event> RankConnections::wait(int milliseconds, SignalInbox& signals,
                                                          const std::function<void(int signal)>& on_signal,
                                                          pollfd* other) {
  std::vector<pollfd> sources;
  for (const Rank& rank : ranks_) sources.push_back({rank.connection.get(), POLLIN, 0});  // -1 is ignored
  sources.push_back({listener_.get(), POLLIN, 0});
  sources.push_back({signals.descriptor(), POLLIN, 0});
  if (other != nullptr) sources.push_back(*other);
  if (poll(sources.data(), sources.size(), milliseconds) < 0 && errno != EINTR)
    throw CommunicationError("poll failed: " + std::string(std::strerror(errno)), MessageCode::launch_failed);
  if (other != nullptr) *other = sources.back();
  while (const std::optional<int> signal = signals.take()) on_signal(*signal);
  std::vector<Event> events;
  const std::size_t known = ranks_.size();
  for (std::size_t i = 0; i < known; ++i) {
    if (sources[i].revents == 0) continue;
    if (const auto what = read_from(ranks_[i])) events.push_back({*what, i});
  }
  if (sources[known].revents != 0 && accept_rank()) events.push_back({Event::What::connected, known});
  return events;
}

bool RankConnections::accept_rank() {
  FileDescriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection) return false;
  const std::optional<pid_t> process = own_process_at(connection.get());
  // A process of another PID namespace has the number 0 here; a signal to 0 would go to this process's group.
  if (!process || *process <= 0) return false;
  Rank& rank = ranks_.emplace_back();
  rank.connection = std::move(connection);
  rank.pid = *process;
  return true;
}

/// Each message is one number: first the rank's, then its exit status.
std::optional<RankConnections::Event::What> RankConnections::read_from(Rank& rank) {
  std::int32_t number = 0;
  const ssize_t bytes = recv(rank.connection.get(), &number, sizeof number, MSG_WAITALL);
  if (bytes != sizeof number) {
    rank.connection.reset();
    return Event::What::ended;
  }
  if (rank.number < 0) {
    rank.number = number;
    return std::nullopt;
  }
  rank.status = number;
  return Event::What::reported;
}

}  // namespace cxtrain
