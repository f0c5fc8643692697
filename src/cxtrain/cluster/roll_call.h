#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/cluster/launch_environment.h"

namespace cxtrain {

/// Finds out which ranks of a node are there, and what they do, when one has waited too long for the others.
///
/// Each rank listens on a local datagram socket whose name follows from its job and its place on the node, so
/// that the ranks find each other before MPI connects them, and nothing is left behind. A thread of its own
/// answers (the watchdog's): a rank whose main thread waits, or computes, says so; one that is stopped says nothing; one that
/// has ended, or has not started, has no socket. Nothing is sent while all is well. One thread uses it.
class RollCall {
 public:
  /// What a rank says of itself.
  struct State {
    int rank = 0;
    int process = 0;
    bool waiting = false;   ///< in an operation that needs the others
    bool late = false;      ///< ... for longer than it may
    std::string operation = {};  ///< the one that it waits in
  };
  enum class Presence { waiting, busy, silent, gone };
  struct Answer {
    int local_rank = 0;
    Presence presence = Presence::gone;
    State state;  ///< where it has answered
  };

  /// Without a place on the node in `place` it neither asks nor answers.
  explicit RollCall(const LaunchEnvironment& place);

  /// How many ranks the node has, where `place` does not say.
  void set_local_size(int size) noexcept { local_size_ = size; }

  /// To poll for questions; -1 where there is no socket.
  int descriptor() const noexcept { return socket_.get(); }
  /// Answers the questions that have come; does not wait.
  void answer(const State& mine);
  /// Asks the other ranks of the node, and answers theirs meanwhile. Ranks that have said nothing after
  /// `patience` are silent.
  std::vector<Answer> ask(const State& mine, std::chrono::milliseconds patience);
  /// A rank that found itself late before this one did, and has asked who is missing: it reports.
  std::optional<int> reporter() const noexcept { return reporter_; }

 private:
  struct Message;
  void receive(const State& mine, std::vector<Answer>* answers);
  bool send(int local_rank, const Message& message) const;

  std::string job_;
  int local_rank_, local_size_;
  FileDescriptor socket_;
  std::optional<int> reporter_;
};

}  // namespace cxtrain
