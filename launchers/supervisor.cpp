#include "launchers/supervisor.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {
namespace {

FileDescriptor open_socket(const char* purpose) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw CommunicationError(std::string(purpose) + ": " + std::strerror(errno));
  return socket;
}

/// Nobody else's process may pose as a rank.
std::optional<ucred> peer_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) return {};
  return peer;
}

}  // namespace

SignalInbox::SignalInbox() {
  sigset_t caught;
  sigemptyset(&caught);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&caught, signal);
  descriptor_ = signalfd(-1, &caught, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor_ < 0) throw CommunicationError("signalfd failed: " + std::string(std::strerror(errno)));
  pthread_sigmask(SIG_BLOCK, &caught, &before_);
}

SignalInbox::~SignalInbox() {
  close(descriptor_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalInbox::take() {
  signalfd_siginfo info{};
  if (read(descriptor_, &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

bool ends_a_process(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

Supervisor::Supervisor(int ranks, Deadlines deadlines)
    : ranks_(ranks),
      deadlines_(deadlines),
      address_("cxtrain-" + std::to_string(getpid()) + "-" + std::to_string(std::random_device{}())),
      listener_(open_socket("cannot watch over ranks")) {
  const AbstractAddress address(address_);
  if (bind(listener_.get(), address.get(), address.size()) != 0 || listen(listener_.get(), ranks) != 0) {
    throw CommunicationError("cannot watch over ranks: " + std::string(std::strerror(errno)));
  }
}

int Supervisor::watch(SignalInbox& signals, int starter) {
  start_ = Clock::now();
  while (!all_ended()) {
    std::vector<pollfd> sources{{signals.descriptor(), POLLIN, 0},
                                {listener_.get(), POLLIN, 0},
                                {starter_gone_ ? -1 : starter, POLLIN, 0}};
    const std::size_t others = sources.size();
    for (const Rank& rank : connected_)
      sources.push_back({rank.connection.get(), POLLIN, 0});  // -1 is ignored
    constexpr int kLookAtTheClock = 200;                      // ms
    if (poll(sources.data(), sources.size(), kLookAtTheClock) < 0 && errno != EINTR) {
      throw CommunicationError("poll failed: " + std::string(std::strerror(errno)));
    }
    while (const std::optional<int> signal = signals.take()) on_signal(*signal);
    for (std::size_t i = others; i < sources.size(); ++i) {
      if (sources[i].revents != 0) read_from(connected_[i - others]);
    }
    if (sources[1].revents != 0) accept_rank();
    if (sources[2].revents != 0) read_from_starter(starter);
    look_at_clock();
  }
  return failure_.value_or(0);
}

void Supervisor::look_at_clock() {
  const Clock::time_point now = Clock::now();
  const int missing = ranks_ - static_cast<int>(connected_.size());
  if (missing > 0 && !failure_ && now - start_ > deadlines_.start) {
    log_error(std::to_string(missing) + " of " + std::to_string(ranks_) + " spawned ranks on " + hostname() +
              " have not started within " +
              std::to_string(std::chrono::duration_cast<std::chrono::seconds>(deadlines_.start).count()) +
              " s (" + ranks_not_connected() + "); what they print says why, or `mpirun -np " +
              std::to_string(ranks_) + "` of the same program");
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
    const auto is_it = [rank](const Rank& connected) { return connected.number == rank; };
    if (std::any_of(connected_.begin(), connected_.end(), is_it)) continue;
    constexpr int kMost = 8;
    if (++named > kMost) return text + ", ...";
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  return text;
}

void Supervisor::read_from_starter(int starter) {
  std::array<char, 4096> text;
  const ssize_t bytes = read(starter, text.data(), text.size());
  if (bytes <= 0) starter_gone_ = true;
  if (failure_ || static_cast<int>(connected_.size()) == ranks_) return;
  log_error("spawn: " + (bytes > 0 ? std::string(text.data(), static_cast<std::size_t>(bytes))
                                   : std::string("the process that starts the ranks has died")));
  fail(static_cast<int>(ExitCode::failure));
  kill_at_ = Clock::now();
}

/// After a failure, ranks that have not connected may still do so for a while.
bool Supervisor::all_ended() const {
  if (ended_ == ranks_) return true;
  return late_at_ && Clock::now() >= *late_at_ && ended_ == static_cast<int>(connected_.size());
}

void Supervisor::accept_rank() {
  FileDescriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection) return;
  const std::optional<ucred> peer = peer_of(connection.get());
  if (!peer) return;
  Rank& rank = connected_.emplace_back();
  rank.connection = std::move(connection);
  rank.pid = peer->pid;
  // These came while this rank was starting.
  for (const int signal : other_signals_) kill(rank.pid, signal);
  if (end_signal_) kill(rank.pid, *end_signal_);
}

/// Each message is one number: first the rank's, then its exit status.
void Supervisor::read_from(Rank& rank) {
  std::int32_t number = 0;
  const ssize_t bytes = recv(rank.connection.get(), &number, sizeof number, MSG_WAITALL);
  if (bytes == sizeof number) {
    if (rank.number < 0) {
      rank.number = number;
    } else {
      rank.status = number;
      if (number != 0) fail(number);
    }
    return;
  }
  rank.connection.reset();
  ++ended_;
  on_end(rank);
}

void Supervisor::on_end(const Rank& rank) {
  if (rank.status) return;
  if (end_signal_) return fail(128 + *end_signal_);
  if (!failure_) {
    const std::string who = "rank " + std::to_string(rank.number) + " on " + hostname() + " (process " +
                            std::to_string(rank.pid) + ")";
    const std::string missing = ranks_not_connected();
    log_error(missing.empty()
                  ? who +
                        " died without a word: it crashed, or was killed from outside (out of memory?); the "
                        "others are ended"
                  : missing + " has not started, and " + who +
                        " has ended without a word: one of them crashed, or was killed from outside (out of "
                        "memory?)");
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
  if (static_cast<int>(connected_.size()) < ranks_) fail(128 + signal);  // the rest may never come
  if (second) late_at_ = Clock::now();
}

void Supervisor::signal_all(int signal) const {
  for (const Rank& rank : connected_) {
    if (rank.connection) kill(rank.pid, signal);
  }
}

SupervisorLink::SupervisorLink(int rank) {
  const char* name = std::getenv(kSupervisorVariable);
  if (name == nullptr) return;
  connection_ = open_socket("cannot reach the process that spawned this rank");
  const AbstractAddress address(name);
  if (connect(connection_.get(), address.get(), address.size()) != 0) {
    throw CommunicationError("cannot reach the process that spawned this rank: " +
                             std::string(std::strerror(errno)));
  }
  report(rank);
}

void SupervisorLink::report(int status) noexcept {
  const auto message = static_cast<std::int32_t>(status);
  if (connection_) send(connection_.get(), &message, sizeof message, MSG_NOSIGNAL);
}

}  // namespace cxtrain
