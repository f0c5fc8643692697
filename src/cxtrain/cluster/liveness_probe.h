#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/cluster/launch_environment.h"

namespace cxtrain {

/// Where a datagram socket can be reached.
struct DatagramAddress {
  sockaddr_storage address{};
  socklen_t size = 0;
};

/// Finds out who is there of those that a job has, and what they do, when one has waited too long for the
/// others: of the ranks of a node, or of the nodes.
///
/// Each has a datagram socket, which a thread of its own answers (the watchdog's): a rank whose main thread
/// waits, or computes, says so; one that is stopped says nothing; one that has ended, or has not started, has
/// no socket. Nothing is sent while all is well. One thread uses it. Messages of other users' processes are
/// dropped: on a node by the sender's user, which the kernel tells; between nodes by the job's token.
class LivenessProbe {
 public:
  /// What a rank says of itself.
  struct State {
    int rank = 0;
    int process = 0;
    bool waiting = false;        ///< in an operation that needs the others
    bool late = false;           ///< ... for longer than it may
    std::string operation = {};  ///< the one that it waits in
    /// Of what it waits for, or else of what it waited for last (`FlightRecorder::number`); 0: nothing.
    std::uint64_t number = 0;
    bool of_watched_work = false;  ///< counts by itself
    bool for_the_node = false;     ///< waits for other nodes, and the other ranks of this one for it
  };
  enum class Presence { waiting, busy, silent, gone };
  struct Answer {
    int peer = 0;  ///< a local rank, or a node
    Presence presence = Presence::gone;
    State state;  ///< where it has answered
  };
  /// Where peer `peer` can be reached; several addresses are all tried.
  using Addresses = std::function<std::vector<DatagramAddress>(int peer)>;

  /// `socket` may be none: it neither asks nor answers then. `own`: its number among `peers` ones. `token`:
  /// the same for all of a job, and for no other.
  LivenessProbe(FileDescriptor socket, std::uint64_t token, int own, int peers, Addresses addresses);

  void set_peers(int peers) noexcept { peers_ = peers; }

  /// To poll for questions; -1 where there is no socket.
  int descriptor() const noexcept { return socket_.get(); }
  /// Answers the questions that have come, at most 64; does not wait.
  void answer(const State& own);
  /// Asks all others, and answers theirs meanwhile. Those that have said nothing after `patience` are silent.
  std::vector<Answer> ask(const State& own, std::chrono::milliseconds patience);
  /// How often this rank was asked so far.
  int questions() const noexcept { return questions_; }
  /// A rank that found itself late before this one did, and has asked who is missing: it reports.
  std::optional<int> reporter() const noexcept { return reporter_; }

 private:
  struct Message;
  void receive(const State& own, std::vector<Answer>* answers);
  bool read_message(Message& message, DatagramAddress& from) const;
  bool send(const DatagramAddress& to, const Message& message) const;
  bool is_there(int peer, const Message& question) const;

  FileDescriptor socket_;
  bool checks_user_ = false;  ///< local sockets, whose kernel says which user has sent a message
  std::uint64_t token_;
  int own_, peers_;
  Addresses addresses_;
  int questions_ = 0;
  std::uint64_t asked_ = 0;     ///< numbers this one's questions
  std::int32_t asker_ = -1;     ///< of the last question that came
  std::uint64_t question_ = 0;  ///< its number
  std::optional<int> reporter_;
};

/// Among the ranks of a node: over local sockets whose names follow from the job and the place on the node,
/// so that the ranks find each other before MPI connects them, and nothing is left behind. Where `launched`
/// does not say which of the node's ranks this is, it neither asks nor answers.
LivenessProbe liveness_probe_of_ranks(const LaunchEnvironment& launched);

/// A socket that other nodes can reach, and where.
struct NodeSocket {
  FileDescriptor socket;
  std::vector<std::uint32_t> addresses;  ///< of `network_addresses`
  std::uint16_t port = 0;
};
NodeSocket open_node_socket();

/// Among nodes, for which their first ranks answer. `addresses` and `ports`: of each node.
LivenessProbe liveness_probe_of_nodes(FileDescriptor socket, std::uint64_t token, int own,
                                      std::vector<std::vector<std::uint32_t>> addresses,
                                      std::vector<std::uint16_t> ports);

}  // namespace cxtrain
