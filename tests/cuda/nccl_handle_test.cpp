#include "cxtrain/cuda/nccl_handle.h"

#include <ATen/ops/zeros.h>

#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/fake_nccl.h"

namespace cxtrain {
namespace {

using test::code;
using test::contains;
using test::error_of;
using test::FakeNccl;
using test::ScriptedWorld;
using Calls = std::vector<std::string>;

/// Rank 0 of 2.
struct Pair {
  FakeNccl fake;
  NcclLibrary api = fake.api();
  ScriptedWorld world{0, 2};
};

TEST_CASE("NCCL connects after a barrier, in one call that waits") {
  Pair pair;
  const NcclHandle comm(pair.world, pair.api);
  CHECK(comm.is_open());
  CHECK(comm.size() == 2);
  CHECK(pair.fake.blocking == 1);
  CHECK(pair.world.barriers == 1);
  CHECK(pair.fake.calls == Calls{"id", "init"});
}

TEST_CASE("a rank other than the root takes the root's id, zero bytes included") {
  FakeNccl fake;
  NcclLibrary api = fake.api();
  ScriptedWorld world(1, 2);
  ncclUniqueId id{};
  for (std::size_t i = 0; i < sizeof id.internal; ++i) id.internal[i] = static_cast<char>(i % 5);
  world.from_root.assign(id.internal, sizeof id.internal);
  const NcclHandle comm(world, api);
  CHECK(std::memcmp(fake.seen_id.internal, id.internal, sizeof id.internal) == 0);
  CHECK(fake.count("id") == 0);
}

TEST_CASE("a connection that does not come is found by the watchdog, by name") {
  Pair pair;
  pair.world.set_timeout(0.3, {});
  std::string told;
  pair.fake.on_init = [&] { told = pair.world.alarms.first(Watchdog::Cause::deadline); };
  const NcclHandle comm(pair.world, pair.api);
  CHECK(told == "ncclCommInitRankConfig");
}

TEST_CASE("so is an operation that does not return, and an end that does not come") {
  Pair pair;
  std::string told;
  const auto slow = [&] { return told = pair.world.alarms.first(Watchdog::Cause::deadline), ncclSuccess; };
  SECTION("an operation") {
    NcclHandle comm(pair.world, pair.api);
    pair.world.set_timeout(0.3, {});
    comm.call("ncclAllReduce", [&](ncclComm_t) { return slow(); });
    CHECK(told == "ncclAllReduce");
  }
  SECTION("the end") {
    {
      const NcclHandle comm(pair.world, pair.api);
      pair.world.set_timeout(0.3, {});
      pair.api.comm_finalize = [&](ncclComm_t) { return slow(); };
    }
    CHECK(told == "ncclCommFinalize");
  }
}

TEST_CASE("a connection that fails is told with rank, host, call, NCCL's words and the cure") {
  Pair pair;
  pair.fake.status = ncclSystemError;
  pair.fake.last_error = "bind failed";
  REQUIRE_THAT(error_of([&] { NcclHandle(pair.world, pair.api); }),
               contains(code(MessageCode::communication_failed)) && contains("rank 0 of 2 on node7") &&
                   contains("ncclCommInitRankConfig") && contains("the fake's system error") &&
                   contains("bind failed") && contains("NCCL_SOCKET_IFNAME"));
  CHECK(pair.fake.count("destroy") == 0);
}

TEST_CASE("an operation that fails leaves a communicator that is given up, not closed") {
  Pair pair;
  {
    NcclHandle comm(pair.world, pair.api);
    pair.fake.status = ncclRemoteError;
    REQUIRE_THAT(error_of([&] { comm.broadcast(at::zeros({4}), 0, nullptr); }),
                 contains(code(MessageCode::communication_failed)) && contains("ncclBroadcast") &&
                     contains("its own log"));
    CHECK_FALSE(comm.is_open());
    CHECK(pair.fake.count("abort") == 0);  // another thread may be asking it
    REQUIRE_THROWS_WITH(comm.call("ncclAllReduce", [](ncclComm_t) { return ncclSuccess; }),
                        contains("ncclAllReduce") && contains("failed before"));
    CHECK(comm.find_error().empty());  // it has been told
  }
  CHECK(pair.fake.calls == Calls{"id", "init", "broadcast", "abort"});
}

TEST_CASE("what NCCL finds in the background is told when it is asked") {
  Pair pair;
  const NcclHandle comm(pair.world, pair.api);
  CHECK(comm.find_error().empty());
  pair.fake.async = ncclInProgress;
  CHECK(comm.find_error().empty());
  pair.fake.async = ncclRemoteError;
  CHECK_THAT(comm.find_error(), contains("rank 0 of 2 on node7") && contains("the fake's remote error"));
}

TEST_CASE("every operation gives NCCL its memory, counts and types: elements to reduce, bytes to move") {
  Pair pair;
  NcclHandle comm(pair.world, pair.api);
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
  NcclHandle comm(pair.world, pair.api);
  const at::Tensor flags = at::zeros({8}, at::kBool), share = flags.narrow(0, 0, 4);
  CHECK_THROWS_WITH(comm.all_reduce(flags, ReduceOp::sum, nullptr), contains("Bool"));
  CHECK_THROWS_WITH(comm.reduce_scatter(share, flags, ReduceOp::sum, nullptr), contains("Bool"));
  CHECK(pair.fake.messages.empty());
  comm.all_gather(flags, share, nullptr);
  CHECK(pair.fake.messages.size() == 1);
  CHECK(comm.is_open());
}

TEST_CASE("every operation that fails is told by name") {
  const at::Tensor whole = at::zeros({8}), share = whole.narrow(0, 0, 4);
  const std::vector<std::pair<std::string, std::function<void(NcclHandle&)>>> operations{
      {"ncclAllReduce", [&](NcclHandle& comm) { comm.all_reduce(whole, ReduceOp::sum, nullptr); }},
      {"ncclReduceScatter",
       [&](NcclHandle& comm) { comm.reduce_scatter(share, whole, ReduceOp::sum, nullptr); }},
      {"ncclAllGather", [&](NcclHandle& comm) { comm.all_gather(whole, share, nullptr); }},
      {"ncclBroadcast", [&](NcclHandle& comm) { comm.broadcast(whole, 0, nullptr); }},
      {"ncclSend", [&](NcclHandle& comm) { comm.send(whole, 1, nullptr); }},
      {"ncclRecv", [&](NcclHandle& comm) { comm.recv(whole, 1, nullptr); }},
      {"ncclCommSplit", [](NcclHandle& comm) { comm.split(0, 0); }}};
  for (const auto& [name, operation] : operations) {
    Pair pair;
    NcclHandle comm(pair.world, pair.api);
    pair.fake.status = ncclSystemError;
    CHECK_THROWS_WITH(operation(comm), contains(name + ": the fake's system error"));
    CHECK_FALSE(comm.is_open());
  }
}

TEST_CASE("a part of NCCL's ranks has their number and its own place among them, and outlives the whole") {
  Pair pair;
  pair.fake.part_rank = 2;
  pair.fake.part_size = 5;
  std::unique_ptr<NcclHandle> part;
  {
    NcclHandle whole(pair.world, pair.api);
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
  NcclHandle whole(pair.world, pair.api);
  CHECK(whole.split(-8, 0) == nullptr);
  CHECK(pair.fake.color == NCCL_SPLIT_NOCOLOR);
  CHECK(whole.is_open());
}

TEST_CASE(
    "the end of NCCL's communicator finalizes, then destroys; while an exception is under way it aborts") {
  Pair pair;
  { const NcclHandle comm(pair.world, pair.api); }
  CHECK(pair.fake.calls == Calls{"id", "init", "finalize", "destroy"});

  Pair unwinding;
  try {
    const NcclHandle comm(unwinding.world, unwinding.api);
    throw TrainingError("elsewhere");
  } catch (const TrainingError&) {
  }
  CHECK(unwinding.fake.calls == Calls{"id", "init", "abort"});
}

TEST_CASE("a device that does not let NCCL abort does not hold up the error") {
  // Outlives the case: the thread that aborts is left behind.
  static std::promise<void> never;
  static const std::shared_future<void> end = never.get_future().share();
  static NcclLibrary stuck;
  stuck.comm_abort = [](ncclComm_t) { return end.wait(), ncclSuccess; };
  const auto start = std::chrono::steady_clock::now();
  FakeNccl fake;
  abort_communicators(stuck, {fake.handle()});
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  never.set_value();
}

TEST_CASE("a library that is too old, or of another generation, is refused before anything else") {
  Pair pair;
  SECTION("older") { pair.fake.version = 21700; }
  SECTION("next generation") { pair.fake.version = NCCL_VERSION_CODE + 10000; }
  REQUIRE_THROWS_WITH(NcclHandle(pair.world, pair.api),
                      contains("NCCL " + nccl_version_text(pair.fake.version)) &&
                          contains(nccl_version_text(NCCL_VERSION_CODE)) && contains("LD_LIBRARY_PATH"));
  CHECK(pair.fake.calls.empty());
}

TEST_CASE("a newer or somewhat older library of the same generation is taken") {
  Pair pair;
  SECTION("newer") { pair.fake.version = NCCL_VERSION_CODE + 100; }
  SECTION("older than the header") { pair.fake.version = 21805; }
  CHECK(NcclHandle(pair.world, pair.api).is_open());
}

TEST_CASE("NCCL's version codes read as versions") {
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(2708) == "2.7.8");
}

}  // namespace
}  // namespace cxtrain
