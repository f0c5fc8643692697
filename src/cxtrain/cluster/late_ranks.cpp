#include "cxtrain/cluster/late_ranks.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"

namespace cxtrain {
namespace {

constexpr std::chrono::milliseconds kPatience{1000};
/// How long a quiet rank lives on: its end would have the launcher end the one that reports.
constexpr int kQuietSeconds = 10;
/// How long a node without a missing rank leaves the word to others.
constexpr int kOtherNodeSeconds = 3;

/// Whether the kernel has stopped it (SIGSTOP, a debugger).
bool is_stopped(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t after_name = line.rfind(')');
  return after_name != std::string::npos && after_name + 2 < line.size() &&
         (line[after_name + 2] == 'T' || line[after_name + 2] == 't');
}

}  // namespace

LateRanks::LateRanks(const LaunchEnvironment& place)
    : roll_call_(place),
      rank_(place.rank),
      local_ranks_are_ranks_(place.size > 0 && place.size == place.local_size),
      hostname_(hostname()) {}

void LateRanks::set_world(const World& world, std::vector<int> processes) {
  world_ = &world;
  const WorldFacts& facts = world.facts();
  rank_ = facts.rank;
  num_nodes_ = facts.num_nodes;
  processes_ = std::move(processes);
  roll_call_.set_local_size(facts.local_size);
  for (int rank = 0; rank < facts.size; ++rank) {
    if (facts.rank_nodes[static_cast<std::size_t>(rank)] == facts.node) ranks_.push_back(rank);
  }
}

RollCall::State LateRanks::state(const char* operation, bool late) const {
  return {rank_, getpid(), operation != nullptr, late, operation != nullptr ? operation : ""};
}

void LateRanks::answer(const char* operation) { roll_call_.answer(state(operation, false)); }

std::string LateRanks::name_of(const RollCall::Answer& answer) const {
  const auto local = static_cast<std::size_t>(answer.local_rank);
  const bool known = local < ranks_.size();
  const bool answered = answer.state.process != 0;
  const int process = answered ? answer.state.process : known ? processes_[local] : 0;
  const std::string rank = answered                 ? "rank " + std::to_string(answer.state.rank)
                           : known                  ? "rank " + std::to_string(ranks_[local])
                           : local_ranks_are_ranks_ ? "rank " + std::to_string(local)
                                                    : "local rank " + std::to_string(local);
  return rank + (process != 0 ? " (process " + std::to_string(process) + ")" : "") + " on " + hostname_;
}

std::string LateRanks::who_is_missing(const std::vector<RollCall::Answer>& answers) const {
  std::string missing;
  for (const RollCall::Answer& answer : answers) {
    if (answer.presence == RollCall::Presence::waiting) continue;
    const auto local = static_cast<std::size_t>(answer.local_rank);
    const bool stopped = local < processes_.size() && is_stopped(processes_[local]);
    const char* what = answer.presence == RollCall::Presence::busy
                           ? " is slow, or elsewhere in the program"
                       : answer.presence == RollCall::Presence::gone
                           ? (ranks_.empty() ? " has not come so far, or has ended" : " has ended")
                       : stopped ? " is stopped"
                                 : " is stopped, or hangs in the kernel: it does not answer";
    missing += (missing.empty() ? "" : "; ") + name_of(answer) + what;
  }
  return missing;
}

void LateRanks::save() const {
  if (world_ != nullptr) world_->say_last_words(static_cast<int>(ExitCode::terminated));
}

void LateRanks::wait_for_reporter(const RollCall::State& mine, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    pollfd source{roll_call_.descriptor(), POLLIN, 0};
    poll(&source, 1, 100);
    roll_call_.answer(mine);
  }
}

void LateRanks::report(const char* operation, double seconds, const std::string& missing) const {
  const std::string where = where_ ? where_() : std::string();
  log_error(missing + ": rank " + std::to_string(rank_) + (where.empty() ? "" : ", " + where) +
            ", has waited in " + operation + " for " + std::to_string(static_cast<int>(seconds)) +
            " s (--timeout_seconds sets the limit)");
}

void LateRanks::end_job(const char* operation, double seconds) {
  const int status = static_cast<int>(ExitCode::failure);
  const RollCall::State mine = state(operation, /*late=*/true);
  std::vector<RollCall::Answer> answers;
  if (!roll_call_.reporter()) answers = roll_call_.ask(mine, kPatience);
  const auto before_me = [&](const RollCall::Answer& answer) {
    return answer.state.late && answer.state.rank < rank_;
  };
  const bool another = roll_call_.reporter() || std::any_of(answers.begin(), answers.end(), before_me);
  if (world_ != nullptr) world_->say_last_words(status);
  if (another) wait_for_reporter(mine, kQuietSeconds);
  std::string missing = who_is_missing(answers);
  if (!another && missing.empty() && num_nodes_ > 1) wait_for_reporter(mine, kOtherNodeSeconds);
  if (!another) {
    for (const RollCall::Answer& answer : answers) {
      if (!missing.empty() || answer.state.operation == operation) continue;
      missing = name_of(answer) + " waits in " + answer.state.operation +
                " instead: the ranks have gone different ways through the program";
    }
    if (missing.empty()) {
      missing = num_nodes_ > 1 ? "a rank of another node is stopped, slow or gone"
                               : "a rank is stopped, slow or elsewhere in the program";
    }
    report(operation, seconds, missing);
  }
  if (world_ != nullptr) world_->report_end(status);
  // Not by MPI, which the other thread is inside; the launcher ends the job when a rank is gone.
  _exit(status);
}

}  // namespace cxtrain
