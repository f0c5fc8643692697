#include "launchers/supervisor.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/launch_environment.h"

namespace cxtrain {
namespace {

FileDescriptor open_socket(const char* purpose) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    throw CommunicationError(std::string(purpose) + ": " + std::strerror(errno), MessageCode::launch_failed);
  return socket;
}

/// A connection to a process of this user; none where nobody of this user listens. On another node somebody
/// else may have taken the name, with a queue that is full, for which a call that waits would wait for ever.
FileDescriptor connect_to_own(const AbstractAddress& address) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    FileDescriptor connection = open_socket("cannot reach the process that started this rank");
    if (connect(connection.get(), address.get(), address.size()) == 0)
      return own_process_at(connection.get()) ? std::move(connection) : FileDescriptor();
    if (errno != EAGAIN) return FileDescriptor();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // its queue is full
  }
  return FileDescriptor();
}

}  // namespace

Supervisor::Supervisor(int ranks, Deadlines deadlines)
    : ranks_(ranks), deadlines_(deadlines), connections_(ranks) {}

int Supervisor::watch(SignalInbox& signals, int starter) {
  start_ = Clock::now();
  while (!all_ended()) {
    pollfd from_starter{starter_gone_ ? -1 : starter, POLLIN, 0};
    constexpr int kLookAtTheClock = 200;  // ms
    const auto pass_on = [this](int signal) { on_signal(signal); };
    for (const auto& event : connections_.wait(kLookAtTheClock, signals, pass_on, &from_starter))
      on_event(event);
    if (from_starter.revents != 0) read_from_starter(starter);
    look_at_clock();
  }
  return failure_.value_or(0);
}

void Supervisor::look_at_clock() {
  const Clock::time_point now = Clock::now();
  const int missing = ranks_ - connected();
  if (missing > 0 && !failure_ && now - start_ > deadlines_.start) {
    log_error(with_code(
        std::to_string(missing) + " of " + std::to_string(ranks_) + " spawned ranks on " + hostname() +
            " have not started within " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(deadlines_.start).count()) +
            " s (" + ranks_not_connected() +
            "); read the output of the ranks above, or start the program with `mpirun -np " +
            std::to_string(ranks_) + "` to get it",
        MessageCode::timeout));
    fail(static_cast<int>(ExitCode::failure));
    kill_at_ = late_at_ = now;
  }
  if (kill_at_ && now >= *kill_at_) signal_all(SIGKILL);
}

/// "rank 0, rank 3"; a rank that has connected and not said its number yet is among them.
std::string Supervisor::ranks_not_connected() const {
  std::string text;
  int named = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto is_it = [rank](const RankConnections::Rank& connected) { return connected.number == rank; };
    if (std::ranges::any_of(connections_.ranks(), is_it)) continue;
    constexpr int kMaxNamedRanks = 8;
    if (++named > kMaxNamedRanks) return text + ", ...";
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  return text;
}

void Supervisor::read_from_starter(int starter) {
  std::array<char, 4096> text;
  const ssize_t bytes = read(starter, text.data(), text.size());
  if (bytes <= 0) starter_gone_ = true;
  if (failure_ || connected() == ranks_) return;
  log_error("spawn: " + (bytes > 0 ? std::string(text.data(), static_cast<std::size_t>(bytes))
                                   : std::string("the process that starts the ranks has died")));
  fail(static_cast<int>(ExitCode::failure));
  kill_at_ = Clock::now();
}

/// After a failure, ranks that have not connected may still do so for a while.
bool Supervisor::all_ended() const {
  if (ended_ == ranks_) return true;
  return late_at_ && Clock::now() >= *late_at_ && ended_ == connected();
}

void Supervisor::on_event(const RankConnections::Event& event) {
  const RankConnections::Rank& rank = connections_.ranks()[event.rank];
  switch (event.what) {
    case RankConnections::Event::What::connected:
      // These came while this rank was starting.
      for (const int signal : other_signals_) kill(rank.pid, signal);
      if (end_signal_) kill(rank.pid, *end_signal_);
      return;
    case RankConnections::Event::What::reported:
      if (*rank.status != 0) fail(*rank.status);
      return;
    case RankConnections::Event::What::ended:
      ++ended_;
      return on_end(rank);
  }
}

void Supervisor::on_end(const RankConnections::Rank& rank) {
  if (rank.status) return;
  if (end_signal_) return fail(128 + *end_signal_);
  if (!failure_) {
    const std::string who = "rank " + std::to_string(rank.number) + " on " + hostname() + " (process " +
                            std::to_string(rank.pid) + ")";
    const std::string missing = ranks_not_connected();
    const std::string text =
        missing.empty()
            ? who +
                  " exited without a status: a crash, or a SIGKILL, often because the node was out of "
                  "memory (dmesg, sacct -o State,MaxRSS); the other ranks are stopped"
            : missing + " has not started, and " + who +
                  " exited without a status: one of them crashed, or got a SIGKILL, often because the node "
                  "was out of memory (dmesg)";
    log_error(with_code(text, MessageCode::rank_lost));
  }
  fail(static_cast<int>(ExitCode::failure));
}

void Supervisor::fail(int status) {
  if (failure_) return;
  failure_ = status;
  kill_at_ = Clock::now() + deadlines_.end;
  late_at_ = Clock::now() + deadlines_.late;
}

void Supervisor::on_signal(int signal) {
  if (!ends_a_process(signal)) {
    other_signals_.insert(signal);
    return signal_all(signal);
  }
  const bool second = end_signal_.has_value();
  if (!second)
    log_info("passing signal " + std::to_string(signal) + " on to the ranks; a second one kills them");
  signal_all(second ? SIGKILL : signal);
  end_signal_ = signal;
  if (connected() < ranks_) fail(128 + signal);  // the rest may never come
  if (second) late_at_ = Clock::now();
}

void Supervisor::signal_all(int signal) const {
  for (const RankConnections::Rank& rank : connections_.ranks()) {
    if (rank.connection) kill(rank.pid, signal);
  }
}

SupervisorLink::SupervisorLink(int rank) {
  for (const char* variable : {kSupervisorVariable, kStarterVariable, kRestarterVariable}) {
    const char* name = std::getenv(variable);
    if (name == nullptr) continue;
    FileDescriptor connection = connect_to_own(AbstractAddress(name));
    if (connection) {
      connections_.push_back(std::move(connection));
    } else if (variable == kSupervisorVariable) {
      throw CommunicationError("cannot reach the process that started this rank: has it ended?",
                               MessageCode::launch_failed);
    }  // the others may be on another node
  }
  report(rank);
}

void SupervisorLink::report(int status) noexcept {
  const auto message = static_cast<std::int32_t>(status);
  for (const FileDescriptor& connection : connections_)
    send(connection.get(), &message, sizeof message, MSG_NOSIGNAL);
}

}  // namespace cxtrain
