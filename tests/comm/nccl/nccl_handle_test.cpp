#include "support/catch.h"
#include "support/skip.h"

#ifdef CXTRAIN_WITH_CUDA

#include <ATen/ops/zeros.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/nccl/nccl_handle.h"
#include "support/fake_nccl.h"

namespace cxtrain {
namespace {

using test::contains;
using test::FakeNccl;
using test::ScriptedWorld;
using test::TickingClock;
using Calls = std::vector<std::string>;

/// Rank 0 of 2 with a GPU each.
struct Pair {
  FakeNccl fake;
  NcclLibrary api = fake.api();
  TickingClock clock{1.0};
  ScriptedWorld world{0, 2};

  Pair() { world.gathers = {{}, {"GPU-a", "GPU-b"}}; }
  NcclHandle connect(double timeout_seconds = 30) {
    return NcclHandle(world, {.gpu_uuid = "GPU-a", .timeout_seconds = timeout_seconds}, api, clock);
  }
};

TEST_CASE("NCCL is asked until it is connected, after a barrier, without blocking") {
  Pair pair;
  const NcclHandle comm = pair.connect();
  CHECK(comm.is_open());
  CHECK(comm.size() == 2);
  CHECK(pair.fake.asked == 4);
  CHECK(pair.fake.blocking == 0);
  CHECK(pair.world.barriers == 1);
  CHECK(pair.fake.calls == Calls{"id", "init"});
}

TEST_CASE("a rank other than the root takes the root's id, zero bytes included") {
  FakeNccl fake;
  NcclLibrary api = fake.api();
  const TickingClock clock(1.0);
  ScriptedWorld world(1, 2);
  world.gathers = {{}, {"GPU-a", "GPU-b"}};
  ncclUniqueId id{};
  for (std::size_t i = 0; i < sizeof id.internal; ++i) id.internal[i] = static_cast<char>(i % 5);
  world.from_root.assign(id.internal, sizeof id.internal);
  const NcclHandle comm(world, {.gpu_uuid = "GPU-b"}, api, clock);
  CHECK(std::memcmp(fake.seen_id.internal, id.internal, sizeof id.internal) == 0);
  CHECK(fake.count("id") == 0);
}

TEST_CASE("a connection that never comes ends at the deadline, aborted, with rank, host, call and cure") {
  Pair pair;
  pair.fake.polls = -1;
  pair.fake.last_error = "socket says no";
  REQUIRE_THROWS_WITH(pair.connect(30), contains("rank 0 of 2 on node7") &&
                                            contains("ncclCommInitRankConfig") &&
                                            contains("not finished within 30 s") &&
                                            contains("socket says no") && contains("NCCL_SOCKET_IFNAME"));
  CHECK(pair.fake.count("abort") == 1);
  CHECK(pair.fake.count("destroy") == 0);
  CHECK(pair.fake.asked <= 32);  // the clock ticks once per question: not asked on after the deadline
}

TEST_CASE("a connection that fails at once or later is aborted and told in NCCL's words") {
  Pair pair;
  SECTION("at once") { pair.fake.starts = ncclSystemError; }
  SECTION("later") { pair.fake.outcome = ncclSystemError; }
  pair.fake.last_error = "bind failed";
  REQUIRE_THROWS_WITH(pair.connect(),
                      contains(ncclGetErrorString(ncclSystemError)) && contains("bind failed"));
  CHECK(pair.fake.count("abort") == 1);
}

TEST_CASE("an error that NCCL finds in the background aborts the communicator") {
  Pair pair;
  NcclHandle comm = pair.connect();
  comm.check_async();
  pair.fake.outcome = ncclRemoteError;
  REQUIRE_THROWS_WITH(comm.check_async(),
                      contains(ncclGetErrorString(ncclRemoteError)) && contains("its own log"));
  CHECK(pair.fake.count("abort") == 1);
  CHECK_FALSE(comm.is_open());
  REQUIRE_THROWS_WITH(comm.call("ncclAllReduce", [](ncclComm_t) { return ncclSuccess; }),
                      contains("is closed"));
}

TEST_CASE("a collective is polled until it is enqueued, and times out by name") {
  Pair pair;
  NcclHandle comm = pair.connect();
  const auto all_reduce = [&](ncclComm_t handle) {
    return pair.api.all_reduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, handle, nullptr);
  };
  const int before = pair.fake.asked;
  comm.call("ncclAllReduce", all_reduce);
  CHECK(pair.fake.asked == before + 4);
  pair.fake.polls = -1;
  REQUIRE_THROWS_WITH(comm.call("ncclAllReduce", all_reduce), contains("ncclAllReduce: not finished"));
  CHECK(pair.fake.count("abort") == 1);
}

TEST_CASE("every operation gives NCCL its memory, counts and types: elements to reduce, bytes to move") {
  Pair pair;
  NcclHandle comm = pair.connect();
  pair.fake.calls.clear();
  auto* const stream = reinterpret_cast<cudaStream_t>(&pair);
  const ncclComm_t handle = pair.fake.handle();
  const at::Tensor halves = at::zeros({3, 4}, at::kHalf), share = halves.view(-1).narrow(0, 6, 6);
  void* const whole_data = halves.mutable_data_ptr();
  void* const share_data = share.mutable_data_ptr();
  comm.all_reduce(halves, ReduceOp::avg, stream);
  comm.reduce_scatter(share, halves, ReduceOp::max, stream);
  comm.all_gather(halves, share, stream);
  comm.broadcast(halves, 1, stream);
  comm.send(share, 1, stream);
  comm.recv(share, 1, stream);
  CHECK(pair.fake.calls == Calls{"all_reduce", "reduce_scatter", "all_gather", "broadcast", "send", "recv"});
  using Messages = std::vector<FakeNccl::Message>;
  CHECK((pair.fake.messages ==
         Messages{
             {"all_reduce", whole_data, whole_data, 12, ncclFloat16, ncclAvg, -1, handle, stream},
             {"reduce_scatter", whole_data, share_data, 6, ncclFloat16, ncclMax, -1, handle, stream},
             {"all_gather", share_data, whole_data, 12, ncclUint8, -1, -1, handle, stream},
             {"broadcast", whole_data, whole_data, 24, ncclUint8, -1, 1, handle, stream},
             {"send", share_data, nullptr, 12, ncclUint8, -1, 1, handle, stream},
             {"recv", nullptr, share_data, 12, ncclUint8, -1, 1, handle, stream},
         }));
}

TEST_CASE("a dtype that NCCL cannot add is refused before it is asked; it moves any") {
  Pair pair;
  NcclHandle comm = pair.connect();
  const at::Tensor flags = at::zeros({8}, at::kBool), share = flags.narrow(0, 0, 4);
  CHECK_THROWS_WITH(comm.all_reduce(flags, ReduceOp::sum, nullptr), contains("Bool"));
  CHECK_THROWS_WITH(comm.reduce_scatter(share, flags, ReduceOp::sum, nullptr), contains("Bool"));
  CHECK(pair.fake.messages.empty());
  comm.all_gather(flags, share, nullptr);
  CHECK(pair.fake.messages.size() == 1);
  CHECK(comm.is_open());
}

TEST_CASE("every operation is polled until it is enqueued, and times out by name") {
  const at::Tensor whole = at::zeros({8}), share = whole.narrow(0, 0, 4);
  const std::vector<std::pair<std::string, std::function<void(NcclHandle&)>>> operations{
      {"ncclReduceScatter",
       [&](NcclHandle& comm) { comm.reduce_scatter(share, whole, ReduceOp::sum, nullptr); }},
      {"ncclAllGather", [&](NcclHandle& comm) { comm.all_gather(whole, share, nullptr); }},
      {"ncclBroadcast", [&](NcclHandle& comm) { comm.broadcast(whole, 0, nullptr); }},
      {"ncclSend", [&](NcclHandle& comm) { comm.send(whole, 1, nullptr); }},
      {"ncclRecv", [&](NcclHandle& comm) { comm.recv(whole, 1, nullptr); }},
      {"ncclCommSplit", [](NcclHandle& comm) { comm.split(0, 0); }}};
  for (const auto& [name, operation] : operations) {
    Pair pair;
    NcclHandle comm = pair.connect();
    pair.fake.polls = -1;
    CHECK_THROWS_WITH(operation(comm), contains(name + ": not finished within 30 s"));
    CHECK(pair.fake.count("abort") == 1);
    CHECK_FALSE(comm.is_open());
  }
}

TEST_CASE("a part of NCCL's ranks has their number and its own place among them, and outlives the whole") {
  Pair pair;
  pair.fake.part_rank = 2;
  pair.fake.part_size = 5;
  std::unique_ptr<NcclHandle> part;
  {
    NcclHandle whole = pair.connect();
    part = whole.split(7, -3);
    CHECK(pair.fake.color == 7);
    CHECK(pair.fake.key == -3);
  }
  REQUIRE(part != nullptr);
  CHECK(part->rank() == 2);
  CHECK(part->size() == 5);
  CHECK(pair.fake.calls == Calls{"id", "init", "split", "finalize", "destroy"});
  part->broadcast(at::zeros({4}), 0, nullptr);
  CHECK(pair.fake.messages.back().comm == pair.fake.part_handle());
  part.reset();
  CHECK(pair.fake.count("destroy") == 2);
}

TEST_CASE("a negative color, whatever it is, leaves a rank out of NCCL's parts") {
  Pair pair;
  NcclHandle whole = pair.connect();
  CHECK(whole.split(-8, 0) == nullptr);
  CHECK(pair.fake.color == NCCL_SPLIT_NOCOLOR);
  CHECK(whole.is_open());
}

TEST_CASE("a part that cannot connect is aborted, and the whole stays") {
  Pair pair;
  NcclHandle whole = pair.connect();
  pair.fake.part_fails = true;
  REQUIRE_THROWS_WITH(whole.split(0, 0),
                      contains("ncclCommSplit") && contains(ncclGetErrorString(ncclSystemError)));
  CHECK(pair.fake.count("abort") == 1);
  CHECK(whole.is_open());
}

TEST_CASE("closing finalizes, then destroys, once") {
  Pair pair;
  {
    NcclHandle comm = pair.connect();
    comm.close();
    CHECK(pair.fake.calls == Calls{"id", "init", "finalize", "destroy"});
    comm.close();
  }
  CHECK(pair.fake.calls == Calls{"id", "init", "finalize", "destroy"});
}

TEST_CASE("the destructor closes, and aborts while an exception is under way") {
  Pair pair;
  { const NcclHandle comm = pair.connect(); }
  CHECK(pair.fake.calls == Calls{"id", "init", "finalize", "destroy"});

  Pair unwinding;
  try {
    const NcclHandle comm = unwinding.connect();
    throw TrainingError("elsewhere");
  } catch (const TrainingError&) {
  }
  CHECK(unwinding.fake.calls == Calls{"id", "init", "abort"});
}

TEST_CASE("a destructor whose finalize never ends aborts at the deadline, without throwing") {
  Pair pair;
  {
    const NcclHandle comm = pair.connect(5);
    pair.fake.polls = -1;
  }
  CHECK(pair.fake.calls == Calls{"id", "init", "finalize", "abort"});
}

TEST_CASE("a library older than the header, or of another generation, is refused before anything else") {
  Pair pair;
  SECTION("older") { pair.fake.version = NCCL_VERSION_CODE - 100; }
  SECTION("next generation") { pair.fake.version = NCCL_VERSION_CODE + 10000; }
  REQUIRE_THROWS_WITH(pair.connect(), contains("NCCL " + nccl_version_text(NCCL_VERSION_CODE)) &&
                                          contains("NCCL " + nccl_version_text(pair.fake.version)) &&
                                          contains("LD_LIBRARY_PATH"));
  CHECK(pair.fake.calls.empty());
}

TEST_CASE("a newer library of the same generation is taken") {
  Pair pair;
  pair.fake.version = NCCL_VERSION_CODE + 100;
  CHECK(pair.connect().is_open());
}

TEST_CASE("two ranks on one GPU are refused before NCCL sees them") {
  Pair pair;
  pair.world.gathers = {{}, {"GPU-a", "GPU-a"}};
  REQUIRE_THROWS_WITH(pair.connect(), contains("ranks 0 and 1 share GPU-a"));
  CHECK(pair.fake.calls.empty());
  const std::vector<std::string> distinct{"GPU-a", "GPU-b", "GPU-c"};
  CHECK_FALSE(ranks_sharing_a_gpu(distinct).has_value());
  const std::vector<std::string> shared{"GPU-a", "GPU-b", "GPU-c", "GPU-b"};
  CHECK(ranks_sharing_a_gpu(shared) == std::pair{1, 3});
}

TEST_CASE("NCCL's version codes read as versions") {
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(2708) == "2.7.8");
}

}  // namespace
}  // namespace cxtrain

#else

TEST_CASE("NCCL's life cycle") { cxtrain::test::skip("built without CUDA, so there is no NCCL to test"); }

#endif
