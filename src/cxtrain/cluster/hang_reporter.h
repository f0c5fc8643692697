#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/liveness_probe.h"
#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// Ends a job whose ranks do not come together: finds out who is missing, and sees to it that one rank says
/// so and the others leave quietly. Each writes into its own log file what it knows: its last waits
/// (`record`), where its main thread is, and what the kernel says of ranks that do not answer. Everything but
/// the setters is called by the watchdog's thread.
class HangReporter {
 public:
  /// Before MPI has started: knows what the launcher said.
  explicit HangReporter(const LaunchEnvironment& launched);

  /// Once MPI has said who the ranks are. `processes`: of this node's ranks. Not while a wait goes on.
  void set_world(const World& world, std::vector<int> processes);
  /// Where there are several nodes, once they know how to reach each other.
  void set_nodes(LivenessProbe nodes);
  void set_where(std::function<std::string()> where);

  /// To poll for questions of other ranks and nodes.
  int descriptor() const noexcept { return questions_.get(); }
  /// Answers other ranks. `wait`: what this one waits for. Where it does not wait, and was asked, the log
  /// file gets the stack of its main thread, at most every ten seconds.
  void answer(const Watchdog::WaitInfo& wait);

  /// This rank has waited for `wait` for too long: reports the ranks that did not come, or waits for
  /// another rank to do so. Ends the process.
  [[noreturn]] void end_late(const Watchdog::WaitInfo& wait, double seconds, const std::string& record);
  /// Something that this rank needs to reach the others is broken: reports `error` and ends the process.
  [[noreturn]] void end_broken(const char* error, const std::string& record);
  /// A signal has come, and the wait goes on: writes what would be lost.
  void save(const std::string& record) const;

 private:
  LivenessProbe::State state(const Watchdog::WaitInfo& wait, bool late) const;
  std::string name_of(const LivenessProbe::Answer& answer) const;
  /// Empty: another rank reports.
  std::string reason_of_hang(const std::vector<LivenessProbe::Answer>& answers,
                             const LivenessProbe::State& own);
  std::string missing_ranks(const std::vector<LivenessProbe::Answer>& answers,
                            const LivenessProbe::State& own) const;
  /// Of the ranks that wait, too; empty: they wait for the same as this one, or for other nodes.
  std::string ranks_elsewhere(const std::vector<LivenessProbe::Answer>& answers,
                              const LivenessProbe::State& own) const;
  void log_other_processes() const;
  void listen_to(const LivenessProbe& probe);
  void answer(const LivenessProbe::State& own);
  bool another_node_asks() const;
  void wait_for_reporter(const LivenessProbe::State& own, int seconds);
  /// Nobody of this node: asks the others. Nothing: one of them reports; empty: all that can be asked wait.
  std::optional<std::string> missing_on_other_nodes(const LivenessProbe::State& own) const;
  /// ", epoch 1, step 230", or nothing.
  std::string where() const;
  void report(const std::string& operation, double seconds, const std::string& missing) const;

  LivenessProbe probe_;  ///< of the node's ranks
  std::chrono::steady_clock::time_point next_stack_{};
  std::unique_ptr<LivenessProbe> owned_nodes_;
  std::atomic<LivenessProbe*> nodes_{nullptr};
  FileDescriptor questions_;  ///< an epoll set of both sockets
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
