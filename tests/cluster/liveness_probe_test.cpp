#include "cxtrain/cluster/liveness_probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "support/catch.h"
#include "support/skip.h"

namespace cxtrain {
namespace {

using Presence = LivenessProbe::Presence;

LaunchEnvironment place(int local_rank, int size) {
  static std::atomic<int> job = 0;
  return {local_rank, size, local_rank, size, "test-" + std::to_string(getpid()) + "-" + std::to_string(job)};
}

/// Answers in a thread of its own, as the watchdog does.
class Answering {
 public:
  Answering(LivenessProbe& probe, LivenessProbe::State state)
      : thread_([&probe, state](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            probe.answer(state);
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}

 private:
  std::jthread thread_;
};

TEST_CASE("a liveness probe tells who waits, who is busy, who is silent and who is gone") {
  LivenessProbe me = liveness_probe_of_ranks(place(0, 5)), waiting = liveness_probe_of_ranks(place(1, 5)),
                busy = liveness_probe_of_ranks(place(2, 5));
  const LivenessProbe silent = liveness_probe_of_ranks(place(3, 5));
  {
    const Answering one(waiting, {.rank = 11,
                                  .process = 1,
                                  .waiting = true,
                                  .operation = "all_reduce",
                                  .number = 1234,
                                  .of_watched_work = true});
    const Answering two(busy, {.rank = 12, .process = 2, .number = 1233});
    const auto answers =
        me.ask({.rank = 10, .process = 3, .waiting = true, .late = true}, std::chrono::seconds(2));
    REQUIRE(answers.size() == 4);
    CHECK(answers[0].presence == Presence::waiting);
    CHECK(answers[0].state.rank == 11);
    CHECK(answers[0].state.operation == "all_reduce");
    CHECK(answers[0].state.number == 1234);
    CHECK(answers[0].state.of_watched_work);
    CHECK(answers[1].presence == Presence::busy);
    CHECK(answers[1].state.process == 2);
    CHECK(answers[1].state.number == 1233);
    CHECK_FALSE(answers[1].state.of_watched_work);
    CHECK(answers[2].presence == Presence::silent);
    CHECK(answers[3].presence == Presence::gone);
  }
  CHECK(busy.questions() == 1);
  CHECK(waiting.reporter() == 10);  // a rank that was asked leaves the word to the one that asked
}

TEST_CASE("of two late ranks that ask each other, each learns that the other is late") {
  LivenessProbe first = liveness_probe_of_ranks(place(0, 2)), second = liveness_probe_of_ranks(place(1, 2));
  std::vector<LivenessProbe::Answer> to_second;
  std::jthread other([&] {
    to_second = second.ask({.rank = 1, .waiting = true, .late = true}, std::chrono::seconds(5));
    for (int i = 0; i < 20; ++i) {
      second.answer({.rank = 1, .waiting = true, .late = true});
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const auto to_first = first.ask({.rank = 0, .waiting = true, .late = true}, std::chrono::seconds(5));
  for (int i = 0; i < 20; ++i) {
    first.answer({.rank = 0, .waiting = true, .late = true});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  other.join();
  REQUIRE(to_first.size() == 1);
  REQUIRE(to_second.size() == 1);
  CHECK(to_second[0].state.late);
  CHECK_FALSE(first.reporter());
}

TEST_CASE("nodes ask each other over the network, and only those of the same job answer") {
  std::vector<NodeSocket> sockets;
  for (int node = 0; node < 4; ++node) sockets.push_back(open_node_socket());
  REQUIRE(sockets[0].port != 0);
  std::vector<std::vector<std::uint32_t>> addresses(4, {htonl(INADDR_LOOPBACK)});
  std::vector<std::uint16_t> ports;
  for (const NodeSocket& socket : sockets) ports.push_back(socket.port);
  const auto call = [&](int node, std::uint64_t token) {
    return liveness_probe_of_nodes(std::move(sockets[static_cast<std::size_t>(node)].socket), token, node,
                                   addresses, ports);
  };
  LivenessProbe me = call(0, 7), other = call(1, 7), foreign = call(2, 8);
  const LivenessProbe silent = call(3, 7);
  const Answering one(other, {.rank = 4, .waiting = true, .operation = "all_reduce"});
  const Answering two(foreign, {.rank = 4});
  const auto answers = me.ask({.rank = 0, .waiting = true, .late = true}, std::chrono::seconds(2));
  REQUIRE(answers.size() == 3);
  CHECK(answers[0].peer == 1);
  CHECK(answers[0].presence == Presence::waiting);
  CHECK(answers[0].state.rank == 4);
  CHECK(answers[1].presence == Presence::silent);
  CHECK(answers[2].presence == Presence::silent);
}

TEST_CASE("what processes of other users send is dropped") {
  if (geteuid() != 0) return test::skip("only root can start a process of another user");
  const LaunchEnvironment here = place(0, 2), there = place(1, 2);
  LivenessProbe me = liveness_probe_of_ranks(here);
  const pid_t stranger = fork();
  if (stranger == 0) {
    if (setuid(54321) != 0) _exit(1);
    LivenessProbe other = liveness_probe_of_ranks(there);
    const auto answers = other.ask({.rank = 1, .waiting = true, .late = true}, std::chrono::seconds(2));
    _exit(answers.size() == 1 && answers[0].presence == Presence::silent ? 0 : 2);
  }
  int status = -1;
  while (waitpid(stranger, &status, WNOHANG) == 0) {
    me.answer({.rank = 0});
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(me.questions() == 0);
  CHECK_FALSE(me.reporter());
}

TEST_CASE("a flood of questions is answered piece by piece") {
  std::vector<NodeSocket> sockets;
  for (int node = 0; node < 2; ++node) sockets.push_back(open_node_socket());
  const std::vector<std::vector<std::uint32_t>> addresses(2, {htonl(INADDR_LOOPBACK)});
  const std::vector<std::uint16_t> ports{sockets[0].port, sockets[1].port};
  REQUIRE(sockets[0].port != 0);
  LivenessProbe me = liveness_probe_of_nodes(std::move(sockets[0].socket), 7, 0, addresses, ports);
  LivenessProbe other = liveness_probe_of_nodes(std::move(sockets[1].socket), 7, 1, addresses, ports);
  for (int i = 0; i < 100; ++i) other.ask({.rank = 1}, std::chrono::milliseconds(0));
  me.answer({.rank = 0});
  CHECK(me.questions() == 64);
  me.answer({.rank = 0});
  CHECK(me.questions() == 100);
}

TEST_CASE("a question that a full queue has lost is asked again") {
  LivenessProbe me = liveness_probe_of_ranks(place(0, 3)), other = liveness_probe_of_ranks(place(1, 3)),
                flood = liveness_probe_of_ranks(place(2, 3));
  int most_in_queue = 10;
  std::ifstream("/proc/sys/net/unix/max_dgram_qlen") >> most_in_queue;
  for (int i = 0; i <= most_in_queue; ++i) flood.ask({.rank = 2}, std::chrono::milliseconds(0));
  auto answers = std::async(std::launch::async, [&me] {
    return me.ask({.rank = 0, .waiting = true, .late = true}, std::chrono::seconds(20));
  });
  // `me` has an answer for the flood when it has asked for the first time: into the full queue of `other`.
  pollfd answered{flood.descriptor(), POLLIN, 0};
  REQUIRE(poll(&answered, 1, 20'000) == 1);
  const Answering one(other, {.rank = 1, .waiting = true}), two(flood, {.rank = 2, .waiting = true});
  for (const LivenessProbe::Answer& answer : answers.get()) CHECK(answer.presence == Presence::waiting);
}

TEST_CASE("without a place on the node nobody is asked") {
  LivenessProbe probe = liveness_probe_of_ranks(LaunchEnvironment{});
  CHECK(probe.descriptor() == -1);
  CHECK(probe.ask({}, std::chrono::milliseconds(10)).empty());
}

}  // namespace
}  // namespace cxtrain
