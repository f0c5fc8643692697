#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// Finds out which ranks of a node are there, and what they do, when one has waited too long for the others.
///
/// Each rank listens on a local datagram socket whose name follows from its job and its place on the node, so
/// that the ranks find each other before MPI connects them, and nothing is left behind. A thread of its own
/// answers (the watchdog's): a rank whose main thread waits, or computes, says so; one that is stopped says
/// nothing; one that has ended, or has not started, has no socket. Nothing is sent while all is well. One
/// thread uses it.
class RollCall {
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
  };
  enum class Presence { waiting, busy, silent, gone };
  struct Answer {
    int local_rank = 0;
    Presence presence = Presence::gone;
    State state;  ///< where it has answered
  };

  /// Where `launched` does not say which of the node's ranks this is, it neither asks nor answers.
  explicit RollCall(const LaunchEnvironment& launched);

  /// How many ranks the node has, where `launched` does not say.
  void set_local_size(int size) noexcept { local_size_ = size; }

  /// To poll for questions; -1 where there is no socket.
  int descriptor() const noexcept { return socket_.get(); }
  /// Answers the questions that have come; does not wait.
  void answer(const State& own);
  /// Asks the other ranks of the node, and answers theirs meanwhile. Ranks that have said nothing after
  /// `patience` are silent.
  std::vector<Answer> ask(const State& own, std::chrono::milliseconds patience);
  /// How often this rank was asked so far.
  int questions() const noexcept { return questions_; }
  /// A rank that found itself late before this one did, and has asked who is missing: it reports.
  std::optional<int> reporter() const noexcept { return reporter_; }

 private:
  struct Message;
  void receive(const State& own, std::vector<Answer>* answers);
  bool send(int local_rank, const Message& message) const;

  std::string job_;
  int local_rank_, local_size_;
  FileDescriptor socket_;
  int questions_ = 0;
  std::optional<int> reporter_;
};

/// Ends a job whose ranks do not come together: finds out who is missing, and sees to it that one rank says
/// so and the others leave quietly. Each writes into its own log file what it knows: its last waits
/// (`record`), where its main thread is, and what the kernel says of ranks that do not answer. Everything but
/// the setters is called by the watchdog's thread.
class LateRanks {
 public:
  /// Before MPI has started: knows what the launcher said.
  explicit LateRanks(const LaunchEnvironment& launched);

  /// Once MPI has said who the ranks are. `processes`: of this node's ranks. Not while a wait goes on.
  void set_world(const World& world, std::vector<int> processes);
  void set_where(std::function<std::string()> where);

  int descriptor() const noexcept { return roll_call_.descriptor(); }
  /// Answers other ranks. `subject`: what this one waits for. Where it does not wait, and was asked, the log
  /// file gets the stack of its main thread.
  void answer(const Watchdog::Subject& subject);

  /// This rank has waited for `subject` for too long: reports the ranks that did not come, or waits for
  /// another rank to do so. Ends the process.
  [[noreturn]] void end_job(const Watchdog::Subject& subject, double seconds, const std::string& record);
  /// Something that this rank needs to reach the others is broken: reports `error` and ends the process.
  [[noreturn]] void end_broken(const char* error, const std::string& record);
  /// A signal has come, and the wait goes on: writes what would be lost.
  void save(const std::string& record) const;

 private:
  RollCall::State state(const Watchdog::Subject& subject, bool late) const;
  std::string name_of(const RollCall::Answer& answer) const;
  std::string who_is_missing(const std::vector<RollCall::Answer>& answers, const RollCall::State& own) const;
  /// Of the ranks that wait, too; empty: they wait for the same as this one.
  std::string who_went_astray(const std::vector<RollCall::Answer>& answers, const RollCall::State& own) const;
  void log_other_processes() const;
  void wait_for_reporter(const RollCall::State& own, int seconds);
  /// ", epoch 1, step 230", or nothing.
  std::string where() const;
  void report(const std::string& operation, double seconds, const std::string& missing) const;

  RollCall roll_call_;
  std::atomic<int> rank_;
  bool local_ranks_are_ranks_;  ///< there is one node
  int num_nodes_ = 1;
  std::string hostname_;
  std::vector<int> ranks_;      ///< of this node, by local rank; empty before MPI has started
  std::vector<int> processes_;  ///< theirs
  const World* world_ = nullptr;
  mutable std::mutex where_mutex_;
  std::function<std::string()> where_;
};

}  // namespace cxtrain
