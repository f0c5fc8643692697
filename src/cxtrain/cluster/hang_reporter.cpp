#include "cxtrain/cluster/hang_reporter.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "cxtrain/base/crash_report.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cluster/process_state.h"

namespace cxtrain {
namespace {

constexpr std::chrono::milliseconds kPatience{1000};
/// A stack takes a signal and some lines of the log, and others may ask again and again.
constexpr std::chrono::seconds kStackEvery{10};
/// How long a quiet rank lives on: its end would have the launcher end the one that reports.
constexpr int kQuietSeconds = 10;
/// How long a node without a missing rank leaves the word to others: the first node the shortest, so that its
/// report ends the job before the next one's.
int other_node_seconds(int node) { return 3 + 4 * std::min(node, 3); }

/// ", 1 collective behind (number 1233, rank 0 waits in number 1234)"; empty where the ranks' numbers do not
/// tell.
std::string collectives_apart(const LivenessProbe::Answer& answer, const LivenessProbe::State& own) {
  const LivenessProbe::State& other = answer.state;
  if (own.number == 0 || other.number == 0 || own.of_watched_work != other.of_watched_work) return "";
  // One that does not wait has been through its last one, and we have not.
  const std::string theirs = "number " + std::to_string(other.number),
                    ours =
                        "rank " + std::to_string(own.rank) + " waits in number " + std::to_string(own.number);
  if (other.number == own.number) return ", at the same collective (" + theirs + ")";
  const bool behind = other.number < own.number;
  const std::uint64_t by = behind ? own.number - other.number : other.number - own.number;
  return ", " + counted(by, "collective") + " " + (behind ? "behind" : "ahead") + " (" + theirs + ", " +
         ours + ")";
}

}  // namespace

HangReporter::HangReporter(const LaunchEnvironment& launched)
    : probe_(liveness_probe_of_ranks(launched)),
      questions_(epoll_create1(EPOLL_CLOEXEC)),
      rank_(launched.rank),
      local_ranks_are_ranks_(launched.size > 0 && launched.size == launched.local_size),
      hostname_(hostname()) {
  listen_to(probe_);
}

void HangReporter::listen_to(const LivenessProbe& probe) {
  epoll_event readable{.events = EPOLLIN, .data = {}};
  if (probe.descriptor() >= 0) epoll_ctl(questions_.get(), EPOLL_CTL_ADD, probe.descriptor(), &readable);
}

void HangReporter::set_nodes(LivenessProbe nodes) {
  owned_nodes_ = std::make_unique<LivenessProbe>(std::move(nodes));
  nodes_ = owned_nodes_.get();
  listen_to(*owned_nodes_);
}

void HangReporter::set_world(const World& world, std::vector<int> processes) {
  world_ = &world;
  const WorldFacts& facts = world.facts();
  rank_ = facts.rank;
  num_nodes_ = facts.num_nodes;
  processes_ = std::move(processes);
  probe_.set_peers(facts.local_size);
  for (int rank = 0; rank < facts.size; ++rank) {
    if (facts.rank_nodes[static_cast<std::size_t>(rank)] == facts.node) ranks_.push_back(rank);
  }
}

LivenessProbe::State HangReporter::state(const Watchdog::WaitInfo& wait, bool late) const {
  const bool waits = wait.operation != nullptr;
  return {.rank = rank_,
          .process = getpid(),
          .waiting = waits,
          .late = late,
          .operation = waits ? wait.operation : "",
          .number = wait.number,
          .of_watched_work = wait.of_watched_work,
          .for_the_node = wait.of_some_ranks};
}

void HangReporter::set_where(std::function<std::string()> where) {
  const std::lock_guard lock(where_mutex_);
  where_ = std::move(where);
}

std::string HangReporter::where() const {
  const std::lock_guard lock(where_mutex_);
  const std::string text = where_ ? where_() : std::string();
  return text.empty() ? text : ", " + text;
}

void HangReporter::answer(const Watchdog::WaitInfo& wait) {
  const int questions = probe_.questions();
  answer(state(wait, /*late=*/false));
  if (wait.operation != nullptr || probe_.questions() == questions) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_stack_) return;
  next_stack_ = now + kStackEvery;
  log_detail("others wait for this rank; " + stack_of_main_thread(kPatience));
}

void HangReporter::answer(const LivenessProbe::State& own) {
  probe_.answer(own);
  if (LivenessProbe* const nodes = nodes_) nodes->answer(own);
}

bool HangReporter::another_node_asks() const {
  const LivenessProbe* const nodes = nodes_;
  return nodes != nullptr && nodes->reporter();
}

std::string HangReporter::name_of(const LivenessProbe::Answer& answer) const {
  const auto local = static_cast<std::size_t>(answer.peer);
  const bool known = local < ranks_.size();
  const bool answered = answer.state.process != 0;
  const int process = answered ? answer.state.process : known ? processes_[local] : 0;
  const std::string rank = answered                 ? "rank " + std::to_string(answer.state.rank)
                           : known                  ? "rank " + std::to_string(ranks_[local])
                           : local_ranks_are_ranks_ ? "rank " + std::to_string(local)
                                                    : "local rank " + std::to_string(local);
  return rank + (process != 0 ? " (process " + std::to_string(process) + ")" : "") + " on " + hostname_;
}

std::string HangReporter::missing_ranks(const std::vector<LivenessProbe::Answer>& answers,
                                        const LivenessProbe::State& own) const {
  std::string missing;
  for (const LivenessProbe::Answer& answer : answers) {
    if (answer.presence == LivenessProbe::Presence::waiting) continue;
    const auto local = static_cast<std::size_t>(answer.peer);
    const bool stopped = local < processes_.size() && is_stopped(processes_[local]);
    const char* what = answer.presence == LivenessProbe::Presence::busy
                           ? " is slow, or elsewhere in the program"
                       : answer.presence == LivenessProbe::Presence::gone
                           ? (ranks_.empty() ? " has not come so far, or has ended" : " has ended")
                       : stopped ? " is stopped"
                                 : " is stopped, or hangs in the kernel: it does not answer";
    missing += (missing.empty() ? "" : "; ") + name_of(answer) + what + collectives_apart(answer, own);
  }
  return missing;
}

std::string HangReporter::ranks_elsewhere(const std::vector<LivenessProbe::Answer>& answers,
                                          const LivenessProbe::State& own) const {
  for (const LivenessProbe::Answer& answer : answers) {
    if (answer.state.for_the_node || own.for_the_node) continue;
    const bool counts = answer.state.of_watched_work == own.of_watched_work;
    if (answer.state.operation == own.operation && (!counts || answer.state.number == own.number)) continue;
    return name_of(answer) + " waits in " + answer.state.operation + " instead" +
           collectives_apart(answer, own) + ": the ranks have gone different ways through the program";
  }
  return {};
}

std::optional<std::string> HangReporter::missing_on_other_nodes(const LivenessProbe::State& own) const {
  LivenessProbe* const nodes = nodes_;
  if (nodes == nullptr) return "";
  const WorldFacts& facts = world_->facts();
  std::string missing;
  for (const LivenessProbe::Answer& answer : nodes->ask(own, kPatience)) {
    if (answer.presence == LivenessProbe::Presence::waiting) {
      // It asks as well, and the first one tells.
      if (answer.state.late && answer.peer < facts.node) return std::nullopt;
      continue;
    }
    const std::string& name = facts.node_names[static_cast<std::size_t>(answer.peer)];
    missing += missing.empty() ? "" : "; ";
    missing += answer.presence == LivenessProbe::Presence::busy
                   ? "rank " + std::to_string(answer.state.rank) + " (process " +
                         std::to_string(answer.state.process) + ") on " + name +
                         " is slow, or elsewhere in the program"
                   : name + " does not answer: its ranks are stopped or gone, or the network to it is cut";
  }
  return missing;
}

std::string HangReporter::reason_of_hang(const std::vector<LivenessProbe::Answer>& answers,
                                         const LivenessProbe::State& own) {
  std::string blamed = missing_ranks(answers, own);
  if (!blamed.empty()) return blamed;
  if (num_nodes_ > 1) {
    // A rank that is missing on another node is told from there.
    wait_for_reporter(own, other_node_seconds(world_->facts().node));
    // First: behind a node that is missing, ranks of this one may have come out of a collective before
    // others.
    const std::optional<std::string> elsewhere =
        another_node_asks() ? std::nullopt : missing_on_other_nodes(own);
    if (!elsewhere || !elsewhere->empty()) return elsewhere.value_or("");
  }
  blamed = ranks_elsewhere(answers, own);
  if (!blamed.empty()) return blamed;
  return num_nodes_ > 1 ? "a rank of another node is stopped, slow or gone"
                        : "a rank is stopped, slow or elsewhere in the program";
}

void HangReporter::log_other_processes() const {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i] == getpid()) continue;
    log_detail("the kernel says of rank " + std::to_string(ranks_[i]) + " (process " +
               std::to_string(processes_[i]) + "): " + state_of_process(processes_[i]));
  }
}

void HangReporter::save(const std::string& record) const {
  log_detail(record);
  if (world_ != nullptr) world_->process_end().rescue(static_cast<int>(ExitCode::terminated));
}

void HangReporter::wait_for_reporter(const LivenessProbe::State& own, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    pollfd source{descriptor(), POLLIN, 0};
    poll(&source, 1, 100);
    answer(own);
  }
}

void HangReporter::report(const std::string& operation, double seconds, const std::string& missing) const {
  log_error(with_code(missing + ": rank " + std::to_string(rank_) + where() + ", has waited in " + operation +
                          " for " + std::to_string(static_cast<int>(seconds)) +
                          " s (--timeout_seconds sets the limit)",
                      MessageCode::timeout));
}

void HangReporter::end_broken(const char* error, const std::string& record) {
  const int status = static_cast<int>(ExitCode::failure);
  log_error(with_code("rank " + std::to_string(rank_) + " on " + hostname_ + where() + ": " + error,
                      MessageCode::communication_failed));
  log_detail(record);
  if (world_ != nullptr) {
    world_->process_end().rescue(status);
    world_->process_end().report(status);
  }
  _exit(status);
}

void HangReporter::end_late(const Watchdog::WaitInfo& wait, double seconds, const std::string& record) {
  const int status = static_cast<int>(ExitCode::failure);
  const LivenessProbe::State own = state(wait, /*late=*/true);
  std::vector<LivenessProbe::Answer> answers;
  if (!probe_.reporter()) answers = probe_.ask(own, kPatience);
  const auto before_me = [&](const LivenessProbe::Answer& answer) {
    return answer.state.late && answer.state.rank < rank_;
  };
  const bool another = probe_.reporter() || std::ranges::any_of(answers, before_me);
  if (world_ != nullptr) world_->process_end().rescue(status);
  log_detail(record);
  log_other_processes();
  log_detail(stack_of_main_thread(kPatience));
  const std::string blamed = another ? std::string() : reason_of_hang(answers, own);
  if (blamed.empty()) {
    wait_for_reporter(own, kQuietSeconds);
  } else {
    report(own.operation, seconds, blamed);
  }
  if (world_ != nullptr) world_->process_end().report(status);
  // Not by MPI, which the other thread is inside; the launcher ends the job when a rank is gone.
  _exit(status);
}

}  // namespace cxtrain
