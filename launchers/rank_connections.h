#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "launchers/signal_inbox.h"

namespace cxtrain {

/// The process at the other end of a local connection, if it belongs to this user; nobody else's process may
/// pose as a rank, or as the one that has started it. 0: it is in another PID namespace.
std::optional<pid_t> own_process_at(int connection);

/// Ranks on this node that hold a connection to a local socket of this process, over which each says which
/// rank it is and, at its end, its exit status. The kernel closes the connection of one that dies, so that no
/// death goes unnoticed.
class RankConnections {
 public:
  struct Rank {
    FileDescriptor connection;  ///< none: it has ended
    pid_t pid = 0;
    int number = -1;            ///< -1: connected, but has not said yet
    std::optional<int> status;  ///< what it reported
  };
  struct Event {
    enum class What { connected, reported, ended };
    What what;
    std::size_t rank;  ///< index into `ranks`
  };

  /// `most`: so many may wait to be accepted. Throws CommunicationError.
  explicit RankConnections(int most);

  /// What the ranks look for in their environment.
  const std::string& address() const noexcept { return address_; }
  /// In the order in which they came.
  const std::vector<Rank>& ranks() const noexcept { return ranks_; }

  /// Waits until a rank or a signal has come, or `other` is ready, for `milliseconds` at most. Calls
  /// `on_signal` for each signal. Then returns what has happened to the ranks, in this order. Throws
  /// CommunicationError.
  std::vector<Event> wait(int milliseconds, SignalInbox& signals,
                          const std::function<void(int signal)>& on_signal, pollfd* other = nullptr);
  /// The ranks are none of this one's any more: others come.
  void forget() { ranks_.clear(); }

 private:
  bool accept_rank();
  std::optional<Event::What> read_from(Rank& rank);

  std::string address_;
  FileDescriptor listener_;
  std::vector<Rank> ranks_;
};

}  // namespace cxtrain
