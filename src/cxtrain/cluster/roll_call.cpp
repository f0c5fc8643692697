#include "cxtrain/cluster/roll_call.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {
namespace {

AbstractAddress address_of(const std::string& job, int local_rank) {
  return AbstractAddress("cxtrain-roll-" + job + "-" + std::to_string(local_rank));
}

FileDescriptor open_socket(const LaunchEnvironment& place) {
  if (place.local_rank < 0) return FileDescriptor();
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress address = address_of(place.job, place.local_rank);
  if (socket && bind(socket.get(), address.get(), address.size()) == 0) return socket;
  return FileDescriptor();  // a rank less to be asked; nothing depends on it
}

}  // namespace

struct RollCall::Message {
  static constexpr std::uint32_t kMagic = 0x63783031;
  std::uint32_t magic = kMagic;
  std::int32_t question = 0;
  std::int32_t local_rank = 0, rank = 0, process = 0;
  std::int32_t waiting = 0, late = 0;
  char operation[96] = {};
};

RollCall::RollCall(const LaunchEnvironment& place)
    : job_(place.job),
      local_rank_(place.local_rank),
      local_size_(place.local_size),
      socket_(open_socket(place)) {}

bool RollCall::send(int local_rank, const Message& message) const {
  static_assert(std::is_trivially_copyable_v<Message>);
  const AbstractAddress to = address_of(job_, local_rank);
  return sendto(socket_.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT, to.get(), to.size()) >=
         0;
}

void RollCall::receive(const State& mine, std::vector<Answer>* answers) {
  Message message;
  while (recv(socket_.get(), &message, sizeof message, MSG_DONTWAIT) == sizeof message) {
    if (message.magic != Message::kMagic) continue;
    if (message.question != 0) {
      if (!mine.late && !reporter_) reporter_ = message.rank;
      Message reply;
      reply.local_rank = local_rank_;
      reply.rank = mine.rank;
      reply.process = mine.process;
      reply.waiting = mine.waiting ? 1 : 0;
      reply.late = mine.late ? 1 : 0;
      mine.operation.copy(reply.operation, sizeof reply.operation - 1);
      send(message.local_rank, reply);
    } else if (answers != nullptr) {
      message.operation[sizeof message.operation - 1] = '\0';
      for (Answer& answer : *answers) {
        if (answer.local_rank != message.local_rank) continue;
        answer.presence = message.waiting != 0 ? Presence::waiting : Presence::busy;
        answer.state = {message.rank, message.process, message.waiting != 0, message.late != 0,
                        message.operation};
      }
    }
  }
}

void RollCall::answer(const State& mine) {
  if (socket_) receive(mine, nullptr);
}

std::vector<RollCall::Answer> RollCall::ask(const State& mine, std::chrono::milliseconds patience) {
  std::vector<Answer> answers;
  if (!socket_) return answers;
  Message question;
  question.question = 1;
  question.local_rank = local_rank_;
  question.rank = mine.rank;
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
    receive(mine, &answers);
  }
  return answers;
}

}  // namespace cxtrain
