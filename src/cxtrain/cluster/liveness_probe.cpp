#include "cxtrain/cluster/liveness_probe.h"

#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/cluster/network.h"

namespace cxtrain {
namespace {

DatagramAddress copy_of(const sockaddr* address, socklen_t size) {
  DatagramAddress copy;
  std::memcpy(&copy.address, address, size);
  copy.size = size;
  return copy;
}

DatagramAddress on_network(std::uint32_t address, std::uint16_t port) {
  const sockaddr_in place = socket_address(address, port);
  return copy_of(reinterpret_cast<const sockaddr*>(&place), sizeof place);
}

AbstractAddress address_of_rank(const std::string& job, int local_rank) {
  return AbstractAddress("cxtrain-roll-" + job + "-" + std::to_string(local_rank));
}

}  // namespace

struct LivenessProbe::Message {
  static constexpr std::uint32_t kMagic = 0x63783033;
  std::uint32_t magic = kMagic;
  std::int32_t question = 0;
  std::uint64_t token = 0;
  std::int32_t peer = 0, rank = 0, process = 0;
  std::int32_t waiting = 0, late = 0, of_watched_work = 0, for_the_node = 0;
  std::uint64_t number = 0;
  char operation[96] = {};
};

LivenessProbe::LivenessProbe(FileDescriptor socket, std::uint64_t token, int own, int peers,
                             Addresses addresses)
    : socket_(std::move(socket)), token_(token), own_(own), peers_(peers), addresses_(std::move(addresses)) {
  int domain = 0;
  socklen_t size = sizeof domain;
  checks_user_ =
      socket_ && getsockopt(socket_.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
  const int on = 1;
  if (checks_user_ && setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    socket_.reset();
}

bool LivenessProbe::send(const DatagramAddress& to, const Message& message) const {
  static_assert(std::is_trivially_copyable_v<Message>);
  return sendto(socket_.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT,
                reinterpret_cast<const sockaddr*>(&to.address), to.size) >= 0;
}

/// False: there is none. What is not of this job has the magic number 0.
bool LivenessProbe::read_message(Message& message, DatagramAddress& from) const {
  iovec bytes{&message, sizeof message};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  msghdr header{};
  header.msg_name = &from.address;
  header.msg_namelen = sizeof from.address;
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return false;
  from.size = header.msg_namelen;
  bool is_ours = got == sizeof message && message.magic == Message::kMagic && message.token == token_;
  if (checks_user_) {
    const cmsghdr* const sent_by = CMSG_FIRSTHDR(&header);
    ucred sender{};
    const bool known =
        sent_by != nullptr && sent_by->cmsg_level == SOL_SOCKET && sent_by->cmsg_type == SCM_CREDENTIALS;
    if (known) std::memcpy(&sender, CMSG_DATA(sent_by), sizeof sender);
    is_ours = is_ours && known && sender.uid == geteuid();
  }
  if (!is_ours) message.magic = 0;
  return true;
}

void LivenessProbe::receive(const State& own, std::vector<Answer>* answers) {
  constexpr int kMaxAtOnce = 64;  // a flood of messages keeps nobody from the next look at the time
  for (int i = 0; i < kMaxAtOnce; ++i) {
    Message message;
    DatagramAddress from;
    if (!read_message(message, from)) return;
    if (message.magic != Message::kMagic) continue;
    if (message.question != 0) {
      if (message.peer != asker_ || message.number != question_) ++questions_;  // or it is asked once more
      asker_ = message.peer;
      question_ = message.number;
      if (!own.late && !reporter_) reporter_ = message.rank;
      Message reply;
      reply.token = token_;
      reply.peer = own_;
      reply.rank = own.rank;
      reply.process = own.process;
      reply.waiting = own.waiting ? 1 : 0;
      reply.late = own.late ? 1 : 0;
      reply.of_watched_work = own.of_watched_work ? 1 : 0;
      reply.for_the_node = own.for_the_node ? 1 : 0;
      reply.number = own.number;
      own.operation.copy(reply.operation, sizeof reply.operation - 1);
      send(from, reply);
    } else if (answers != nullptr) {
      message.operation[sizeof message.operation - 1] = '\0';
      for (Answer& answer : *answers) {
        if (answer.peer != message.peer) continue;
        answer.presence = message.waiting != 0 ? Presence::waiting : Presence::busy;
        answer.state = {.rank = message.rank,
                        .process = message.process,
                        .waiting = message.waiting != 0,
                        .late = message.late != 0,
                        .operation = printable(message.operation),
                        .number = message.number,
                        .of_watched_work = message.of_watched_work != 0,
                        .for_the_node = message.for_the_node != 0};
      }
    }
  }
}

void LivenessProbe::answer(const State& own) {
  if (socket_) receive(own, nullptr);
}

/// Asks a peer. Refused: nobody has a socket of this name. Anything else: it is there, and may answer.
bool LivenessProbe::is_there(int peer, const Message& question) const {
  bool there = false;
  for (const DatagramAddress& address : addresses_(peer))
    there = send(address, question) || (errno != ECONNREFUSED && errno != ENOENT) || there;
  return there;
}

std::vector<LivenessProbe::Answer> LivenessProbe::ask(const State& own, std::chrono::milliseconds patience) {
  std::vector<Answer> answers;
  if (!socket_) return answers;
  Message question;
  question.question = 1;
  question.number = ++asked_;
  question.token = token_;
  question.peer = own_;
  question.rank = own.rank;
  for (int other = 0; other < peers_; ++other) {
    if (other == own_) continue;
    answers.push_back({other, is_there(other, question) ? Presence::silent : Presence::gone, {}});
  }
  const auto open = [&] {
    return std::ranges::any_of(answers,
                               [](const Answer& answer) { return answer.presence == Presence::silent; });
  };
  using Steady = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kAgain{50};
  const Steady::time_point end = Steady::now() + patience;
  Steady::time_point again = Steady::now() + kAgain;
  while (open() && Steady::now() < end) {
    pollfd source{socket_.get(), POLLIN, 0};
    poll(&source, 1, static_cast<int>(kAgain.count()));
    receive(own, &answers);
    if (Steady::now() < again) continue;
    // Once more: a queue that was full, as of somebody else's messages, has lost the question.
    again = Steady::now() + kAgain;
    for (const Answer& answer : answers) {
      if (answer.presence == Presence::silent) is_there(answer.peer, question);
    }
  }
  return answers;
}

LivenessProbe liveness_probe_of_ranks(const LaunchEnvironment& launched) {
  FileDescriptor own;
  if (launched.local_rank >= 0) {
    own = FileDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const AbstractAddress address = address_of_rank(launched.job, launched.local_rank);
    // A rank less to be asked; nothing depends on it.
    if (own && bind(own.get(), address.get(), address.size()) != 0) {
      log_warning("local rank " + std::to_string(launched.local_rank) +
                  " does not take part in liveness probes: another process has the name of its socket; if a "
                  "rank stops, an "
                  "error may name this one as well");
      own.reset();
    }
  }
  return {std::move(own), /*token=*/0, launched.local_rank, launched.local_size,
          [job = launched.job](int peer) -> std::vector<DatagramAddress> {
            const AbstractAddress address = address_of_rank(job, peer);
            return {copy_of(address.get(), address.size())};
          }};
}

NodeSocket open_node_socket() {
  NodeSocket opened{.socket = FileDescriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
                    .addresses = {}};
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof any;
  if (!opened.socket || bind(opened.socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
      getsockname(opened.socket.get(), reinterpret_cast<sockaddr*>(&any), &size) != 0)
    return opened;
  opened.port = ntohs(any.sin_port);
  opened.addresses = network_addresses();
  return opened;
}

LivenessProbe liveness_probe_of_nodes(FileDescriptor socket, std::uint64_t token, int own,
                                      std::vector<std::vector<std::uint32_t>> addresses,
                                      std::vector<std::uint16_t> ports) {
  const int nodes = static_cast<int>(addresses.size());
  return {std::move(socket), token, own, nodes,
          [addresses = std::move(addresses), ports = std::move(ports)](int node) {
            const auto at = static_cast<std::size_t>(node);
            return transformed(addresses[at],
                               [&](std::uint32_t address) { return on_network(address, ports[at]); });
          }};
}

}  // namespace cxtrain
