#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "cxtrain/cluster/roll_call.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// Ends a job whose ranks do not come together: finds out who is missing, and sees to it that one rank says
/// so and the others leave quietly. Everything but the setters is called by the watchdog's thread.
class LateRanks {
 public:
  /// Before MPI has started: knows what the launcher said.
  explicit LateRanks(const LaunchEnvironment& place);

  /// Once MPI has said who the ranks are. `processes`: of this node's ranks. Not while a wait goes on.
  void set_world(const World& world, std::vector<int> processes);
  void set_where(std::function<std::string()> where) { where_ = std::move(where); }

  int descriptor() const noexcept { return roll_call_.descriptor(); }
  /// Answers other ranks. `operation`: what this one waits in; null: it does not wait.
  void answer(const char* operation);

  /// This rank has waited in `operation` for too long: reports the ranks that did not come, or waits for
  /// another rank to do so. Ends the process.
  [[noreturn]] void end_job(const char* operation, double seconds);
  /// A signal has come, and the wait goes on: writes what would be lost.
  void save() const;

 private:
  RollCall::State state(const char* operation, bool late) const;
  std::string name_of(const RollCall::Answer& answer) const;
  std::string who_is_missing(const std::vector<RollCall::Answer>& answers) const;
  void wait_for_reporter(const RollCall::State& mine, int seconds);
  void report(const char* operation, double seconds, const std::string& missing) const;

  RollCall roll_call_;
  std::atomic<int> rank_;
  bool local_ranks_are_ranks_;  ///< there is one node
  int num_nodes_ = 1;
  std::string hostname_;
  std::vector<int> ranks_;      ///< of this node, by local rank; empty before MPI has started
  std::vector<int> processes_;  ///< theirs
  const World* world_ = nullptr;
  std::function<std::string()> where_;
};

}  // namespace cxtrain
