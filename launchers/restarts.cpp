#include "launchers/restarts.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cluster/launch_environment.h"
#include "launchers/child_process.h"
#include "launchers/rank_connections.h"
#include "launchers/signal_inbox.h"

namespace cxtrain {
namespace {

using Monotonic = std::chrono::steady_clock;

constexpr int kTriesToRead = 5;

/// One job, from its start to the end of its last process.
class Attempt {
 public:
  Attempt(const Program& program, RankConnections& ranks, SignalInbox& signals, const RestartPlan& plan)
      : ranks_(ranks), signals_(signals), plan_(plan), process_(words_of(program)), children_(process_) {}

  /// Everything but `step`.
  RestartPolicy::End wait() {
    while (!process_.status()) {
      step(kLook);
      if (is_mpirun(process_.id())) children_.kill_stuck_parent();
    }
    // Ranks whose launcher was killed notice it and follow; who does not is killed.
    wait_for_ranks();
    for (const RankConnections::Rank& rank : ranks_.ranks()) {
      if (rank.connection) kill(rank.pid, SIGKILL);
    }
    wait_for_ranks();  // one that hangs in the kernel is left to the lock on the run's folder
    ranks_.forget();
    return {.status = status(), .asked_for = asked_for_, .rank = first_};
  }

 private:
  static constexpr std::chrono::seconds kLate{10};
  static constexpr int kTick = 100, kLook = 1000;  // ms

  /// The mpirun of Open MPI 5.0 ends with 0 when it has lost a node.
  int status() {
    const int ended = *process_.status();
    return ended == 0 && first_ ? static_cast<int>(ExitCode::failure) : ended;
  }

  void wait_for_ranks() {
    for (const Monotonic::time_point end = Monotonic::now() + kLate; alive() && Monotonic::now() < end;)
      step(kTick);
  }

  bool alive() const {
    return std::ranges::any_of(
        ranks_.ranks(), [](const RankConnections::Rank& rank) { return static_cast<bool>(rank.connection); });
  }

  void step(int milliseconds) {
    const auto pass_on = [this](int signal) { on_signal(signal); };
    for (const auto& [what, index] : ranks_.wait(milliseconds, signals_, pass_on)) {
      const RankConnections::Rank& rank = ranks_.ranks()[index];
      using What = RankConnections::Event::What;
      const bool failed =
          (what == What::reported && *rank.status != 0) || (what == What::ended && !rank.status);
      // The process that starts the others ends as they do, and they follow it where it has died itself.
      if (failed && !first_ && !process_.status() && rank.pid != process_.id() && rank.number >= 0)
        first_ = rank.number;
    }
  }

  void on_signal(int signal) {
    if (signal == SIGCHLD) return;  // `wait` looks
    if (ends_a_process(signal) || signal == plan_.requeue_signal) asked_for_ = true;
    if (process_.status()) return;
    end_signals_ += ends_a_process(signal) ? 1 : 0;
    // Who asks for the third time means it.
    if (end_signals_ > 2) {
      process_.kill_group();
    } else {
      const bool in_other_words =
          signal == SIGTERM && end_signals_ == 1 && plan_.by_srun && plan_.requeue_signal != 0;
      process_.send(in_other_words ? plan_.requeue_signal : signal);
    }
  }

  RankConnections& ranks_;
  SignalInbox& signals_;
  const RestartPlan& plan_;
  ChildProcess process_;
  UnreapedChildren children_;  ///< of the process, where it is an mpirun
  std::optional<int> first_;   ///< the rank that ended first, other than well, before the process
  bool asked_for_ = false;
  int end_signals_ = 0;
};

/// "status 137 (killed by signal 9)", as shells count.
std::string describe(const RestartPolicy::End& end) {
  std::string text = "status " + std::to_string(end.status);
  if (end.status > 128 && end.status < 128 + 65) text += " (signal " + std::to_string(end.status - 128) + ")";
  if (end.rank) text += ", and rank " + std::to_string(*end.rank) + " was the first to end";
  return text;
}

void log_end(int restarts, double seconds, const RestartPoint& left) {
  if (restarts == 0) return;
  std::string line = counted(restarts, "restart") + ": " + formatted("%.1f s in all", seconds);
  if (left.trained_seconds > 0 && left.trained_seconds <= seconds) {
    line += ", " + formatted("%.1f s (", left.trained_seconds) +
            percent_text(left.trained_seconds / seconds) + ") of training are kept";
  }
  log_info(line);
}

}  // namespace

int run_with_restarts(const RestartPlan& plan) {
  SignalInbox signals({SIGCHLD});
  RankConnections ranks(plan.limits.ranks);
  setenv(kRestarterVariable, ranks.address().c_str(), /*overwrite=*/1);
  RestartPolicy policy(plan.limits);
  const Monotonic::time_point start = Monotonic::now();
  NextJob next{.ranks = plan.limits.ranks};
  for (;;) {
    RestartPolicy::End end = Attempt(plan.program(next), ranks, signals, plan).wait();
    const bool may_go_on = end.status != 0 && !end.asked_for;
    const RestartPoint left = plan.look(ranks.address(), may_go_on ? kTriesToRead : 1);
    end.step = left.step;
    end.samples = left.samples;
    const RestartPolicy::Decision decision = policy.after(end);
    using Next = RestartPolicy::Decision::Next;
    if (decision.next == Next::end) {
      if (!decision.why.empty()) log_error(with_code(decision.why, MessageCode::rank_lost));
      log_end(policy.restarts(), std::chrono::duration<double>(Monotonic::now() - start).count(), left);
      return decision.status;
    }
    const bool earlier = decision.next == Next::from_the_one_before && !left.before.empty();
    next.from = left.step < 0 ? "" : earlier ? left.before : left.run;
    next.without = decision.rank;
    if (decision.rank) next.samples = left.samples;
    next.ranks = policy.ranks();
    log_warning("the job has ended with " + describe(end) + "; restart " + std::to_string(policy.restarts()) +
                " of " + std::to_string(plan.limits.max_restarts) +
                (decision.why.empty() ? "" : " (" + decision.why + ")") +
                (next.from.empty()
                     ? ", from the beginning: " +
                           (left.unreadable.empty() ? "there is no checkpoint yet" : left.unreadable)
                 : earlier ? ", from the checkpoint before the newest, " + next.from
                           : ", from step " + std::to_string(left.step) + " of " + next.from));
  }
}

}  // namespace cxtrain
