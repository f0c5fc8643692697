#include "cxtrain/cluster/late_ranks.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/base/thread_stack.h"
#include "cxtrain/cluster/process_state.h"

namespace cxtrain {
namespace {

AbstractAddress address_of(const std::string& job, int local_rank) {
  return AbstractAddress("cxtrain-roll-" + job + "-" + std::to_string(local_rank));
}

FileDescriptor open_socket(const LaunchEnvironment& launched) {
  if (launched.local_rank < 0) return FileDescriptor();
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress address = address_of(launched.job, launched.local_rank);
  if (socket && bind(socket.get(), address.get(), address.size()) == 0) return socket;
  return FileDescriptor();  // a rank less to be asked; nothing depends on it
}

constexpr std::chrono::milliseconds kPatience{1000};
/// How long a quiet rank lives on: its end would have the launcher end the one that reports.
constexpr int kQuietSeconds = 10;
/// How long a node without a missing rank leaves the word to others.
constexpr int kOtherNodeSeconds = 3;

/// ", 1 collective behind (number 1233, rank 0 waits in number 1234)"; empty where the ranks' numbers do not
/// tell.
std::string collectives_apart(const RollCall::Answer& answer, const RollCall::State& own) {
  const RollCall::State& other = answer.state;
  if (own.number == 0 || other.number == 0 || own.of_watched_work != other.of_watched_work) return "";
  // One that does not wait has been through its last one, and we have not.
  const std::string theirs = "number " + std::to_string(other.number),
                    ours =
                        "rank " + std::to_string(own.rank) + " waits in number " + std::to_string(own.number);
  if (other.number == own.number) return ", at the same collective (" + theirs + ")";
  const bool behind = other.number < own.number;
  const std::uint64_t by = behind ? own.number - other.number : other.number - own.number;
  return ", " + std::to_string(by) + (by == 1 ? " collective " : " collectives ") +
         (behind ? "behind" : "ahead") + " (" + theirs + ", " + ours + ")";
}

}  // namespace

struct RollCall::Message {
  static constexpr std::uint32_t kMagic = 0x63783032;
  std::uint32_t magic = kMagic;
  std::int32_t question = 0;
  std::int32_t local_rank = 0, rank = 0, process = 0;
  std::int32_t waiting = 0, late = 0, of_watched_work = 0;
  std::uint64_t number = 0;
  char operation[96] = {};
};

RollCall::RollCall(const LaunchEnvironment& launched)
    : job_(launched.job),
      local_rank_(launched.local_rank),
      local_size_(launched.local_size),
      socket_(open_socket(launched)) {}

bool RollCall::send(int local_rank, const Message& message) const {
  static_assert(std::is_trivially_copyable_v<Message>);
  const AbstractAddress to = address_of(job_, local_rank);
  return sendto(socket_.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT, to.get(), to.size()) >=
         0;
}

void RollCall::receive(const State& own, std::vector<Answer>* answers) {
  Message message;
  while (recv(socket_.get(), &message, sizeof message, MSG_DONTWAIT) == sizeof message) {
    if (message.magic != Message::kMagic) continue;
    if (message.question != 0) {
      ++questions_;
      if (!own.late && !reporter_) reporter_ = message.rank;
      Message reply;
      reply.local_rank = local_rank_;
      reply.rank = own.rank;
      reply.process = own.process;
      reply.waiting = own.waiting ? 1 : 0;
      reply.late = own.late ? 1 : 0;
      reply.of_watched_work = own.of_watched_work ? 1 : 0;
      reply.number = own.number;
      own.operation.copy(reply.operation, sizeof reply.operation - 1);
      send(message.local_rank, reply);
    } else if (answers != nullptr) {
      message.operation[sizeof message.operation - 1] = '\0';
      for (Answer& answer : *answers) {
        if (answer.local_rank != message.local_rank) continue;
        answer.presence = message.waiting != 0 ? Presence::waiting : Presence::busy;
        answer.state = {message.rank,      message.process, message.waiting != 0,        message.late != 0,
                        message.operation, message.number,  message.of_watched_work != 0};
      }
    }
  }
}

void RollCall::answer(const State& own) {
  if (socket_) receive(own, nullptr);
}

std::vector<RollCall::Answer> RollCall::ask(const State& own, std::chrono::milliseconds patience) {
  std::vector<Answer> answers;
  if (!socket_) return answers;
  Message question;
  question.question = 1;
  question.local_rank = local_rank_;
  question.rank = own.rank;
  for (int other = 0; other < local_size_; ++other) {
    if (other == local_rank_) continue;
    // Refused: nobody has a socket of this name. Anything else: the rank is there, and may answer.
    const bool there = send(other, question) || (errno != ECONNREFUSED && errno != ENOENT);
    answers.push_back({other, there ? Presence::silent : Presence::gone, {}});
  }
  const auto open = [&] {
    return std::any_of(answers.begin(), answers.end(),
                       [](const Answer& answer) { return answer.presence == Presence::silent; });
  };
  const auto end = std::chrono::steady_clock::now() + patience;
  while (open() && std::chrono::steady_clock::now() < end) {
    pollfd source{socket_.get(), POLLIN, 0};
    poll(&source, 1, 50);
    receive(own, &answers);
  }
  return answers;
}

LateRanks::LateRanks(const LaunchEnvironment& launched)
    : roll_call_(launched),
      rank_(launched.rank),
      local_ranks_are_ranks_(launched.size > 0 && launched.size == launched.local_size),
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

RollCall::State LateRanks::state(const Watchdog::Subject& subject, bool late) const {
  const bool waits = subject.operation != nullptr;
  return {
      rank_, getpid(), waits, late, waits ? subject.operation : "", subject.number, subject.of_watched_work};
}

void LateRanks::set_where(std::function<std::string()> where) {
  const std::lock_guard lock(where_mutex_);
  where_ = std::move(where);
}

std::string LateRanks::where() const {
  const std::lock_guard lock(where_mutex_);
  const std::string text = where_ ? where_() : std::string();
  return text.empty() ? text : ", " + text;
}

void LateRanks::answer(const Watchdog::Subject& subject) {
  const int questions = roll_call_.questions();
  roll_call_.answer(state(subject, /*late=*/false));
  if (subject.operation != nullptr || roll_call_.questions() == questions) return;
  log_detail("others wait for this rank; " + stack_of_main_thread(kPatience));
}

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

std::string LateRanks::who_is_missing(const std::vector<RollCall::Answer>& answers,
                                      const RollCall::State& own) const {
  std::string missing;
  for (const RollCall::Answer& answer : answers) {
    if (answer.presence == RollCall::Presence::waiting) continue;
    const auto local = static_cast<std::size_t>(answer.local_rank);
    const bool stopped = local < processes_.size() && is_stopped(processes_[local]);
    const char* what = answer.presence == RollCall::Presence::busy ? " is slow, or elsewhere in the program"
                       : answer.presence == RollCall::Presence::gone
                           ? (ranks_.empty() ? " has not come so far, or has ended" : " has ended")
                       : stopped ? " is stopped"
                                 : " is stopped, or hangs in the kernel: it does not answer";
    missing += (missing.empty() ? "" : "; ") + name_of(answer) + what + collectives_apart(answer, own);
  }
  return missing;
}

std::string LateRanks::who_went_astray(const std::vector<RollCall::Answer>& answers,
                                       const RollCall::State& own) const {
  for (const RollCall::Answer& answer : answers) {
    const bool counts = answer.state.of_watched_work == own.of_watched_work;
    if (answer.state.operation == own.operation && (!counts || answer.state.number == own.number)) continue;
    return name_of(answer) + " waits in " + answer.state.operation + " instead" +
           collectives_apart(answer, own) + ": the ranks have gone different ways through the program";
  }
  return {};
}

void LateRanks::log_other_processes() const {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i] == getpid()) continue;
    log_detail("the kernel says of rank " + std::to_string(ranks_[i]) + " (process " +
               std::to_string(processes_[i]) + "): " + state_of_process(processes_[i]));
  }
}

void LateRanks::save(const std::string& record) const {
  log_detail(record);
  if (world_ != nullptr) world_->say_last_words(static_cast<int>(ExitCode::terminated));
}

void LateRanks::wait_for_reporter(const RollCall::State& own, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
    pollfd source{roll_call_.descriptor(), POLLIN, 0};
    poll(&source, 1, 100);
    roll_call_.answer(own);
  }
}

void LateRanks::report(const std::string& operation, double seconds, const std::string& missing) const {
  log_error(missing + ": rank " + std::to_string(rank_) + where() + ", has waited in " + operation + " for " +
            std::to_string(static_cast<int>(seconds)) + " s (--timeout_seconds sets the limit)");
}

void LateRanks::end_broken(const char* error, const std::string& record) {
  const int status = static_cast<int>(ExitCode::failure);
  log_error("rank " + std::to_string(rank_) + " on " + hostname_ + where() + ": " + error);
  log_detail(record);
  if (world_ != nullptr) {
    world_->say_last_words(status);
    world_->report_end(status);
  }
  _exit(status);
}

void LateRanks::end_job(const Watchdog::Subject& subject, double seconds, const std::string& record) {
  const int status = static_cast<int>(ExitCode::failure);
  const RollCall::State own = state(subject, /*late=*/true);
  std::vector<RollCall::Answer> answers;
  if (!roll_call_.reporter()) answers = roll_call_.ask(own, kPatience);
  const auto before_me = [&](const RollCall::Answer& answer) {
    return answer.state.late && answer.state.rank < rank_;
  };
  const bool another = roll_call_.reporter() || std::any_of(answers.begin(), answers.end(), before_me);
  if (world_ != nullptr) world_->say_last_words(status);
  log_detail(record);
  log_other_processes();
  log_detail(stack_of_main_thread(kPatience));
  if (another) wait_for_reporter(own, kQuietSeconds);
  std::string missing = who_is_missing(answers, own);
  if (!another && missing.empty() && num_nodes_ > 1) wait_for_reporter(own, kOtherNodeSeconds);
  if (!another) {
    if (missing.empty()) missing = who_went_astray(answers, own);
    if (missing.empty()) {
      missing = num_nodes_ > 1 ? "a rank of another node is stopped, slow or gone"
                               : "a rank is stopped, slow or elsewhere in the program";
    }
    report(own.operation, seconds, missing);
  }
  if (world_ != nullptr) world_->report_end(status);
  // Not by MPI, which the other thread is inside; the launcher ends the job when a rank is gone.
  _exit(status);
}

}  // namespace cxtrain
