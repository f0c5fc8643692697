#include "support/catch.h"
#include "support/skip.h"

#ifdef CXTRAIN_WITH_CUDA

#include "cxtrain/base/error.h"
#include "strategies/dp/nccl_peers.h"
#include "support/fake_nccl.h"

namespace cxtrain {
namespace {

using test::contains;
using test::FakeNccl;
using test::TickingClock;
using Calls = std::vector<std::string>;

/// Three GPUs in one process.
struct Trio {
  FakeNccl fake;
  NcclLibrary api = fake.api();
  TickingClock clock{1.0};

  NcclPeers connect(double timeout_seconds = 30) {
    return NcclPeers(
        {.size = 3,
         .select_device = [this](std::size_t i) { fake.calls.push_back("gpu " + std::to_string(i)); },
         .timeout_seconds = timeout_seconds},
        api, clock);
  }
  ncclResult_t reduce(ncclComm_t comm) const {
    return api.reduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, 0, comm, nullptr);
  }
};

TEST_CASE("the GPUs of a process are connected as one group, each from its own device") {
  Trio trio;
  const NcclPeers group = trio.connect();
  CHECK(group.is_open());
  CHECK(group.size() == 3);
  CHECK(trio.fake.blocking == 0);
  CHECK(trio.fake.calls ==
        Calls{"id", "group_start", "gpu 0", "init", "gpu 1", "init", "gpu 2", "init", "group_end"});
}

TEST_CASE("a call is made for every member within one group, and polled on every member") {
  Trio trio;
  NcclPeers group = trio.connect();
  trio.fake.calls.clear();
  const int before = trio.fake.asked;
  std::vector<std::size_t> members;
  group.call("ncclReduce", [&](std::size_t member, ncclComm_t comm) {
    members.push_back(member);
    return trio.reduce(comm);
  });
  CHECK(members == std::vector<std::size_t>{0, 1, 2});
  CHECK(trio.fake.calls ==
        Calls{"group_start", "gpu 0", "reduce", "gpu 1", "reduce", "gpu 2", "reduce", "group_end"});
  CHECK(trio.fake.asked - before == trio.fake.polls + 3);
}

TEST_CASE("a member that fails ends the group and all communicators, by name") {
  Trio trio;
  NcclPeers group = trio.connect();
  trio.fake.calls.clear();
  trio.fake.last_error = "out of luck";
  REQUIRE_THROWS_WITH(
      group.call("ncclReduce",
                 [&](std::size_t member, ncclComm_t comm) {
                   return member == 1 ? ncclSystemError : trio.reduce(comm);
                 }),
      contains("ncclReduce for GPU number 1 of 3") && contains("out of luck") && contains("NCCL_DEBUG"));
  CHECK(trio.fake.count("group_end") == 1);
  CHECK(trio.fake.count("abort") == 3);
  CHECK_FALSE(group.is_open());
  REQUIRE_THROWS_WITH(group.call("ncclReduce", [](std::size_t, ncclComm_t) { return ncclSuccess; }),
                      contains("closed"));
}

TEST_CASE("a group that does not end is aborted at the deadline") {
  Trio trio;
  SECTION("while connecting") {
    trio.fake.polls = -1;
    REQUIRE_THROWS_WITH(trio.connect(20), contains("ncclCommInitRankConfig") && contains("within 20 s"));
  }
  SECTION("in a call") {
    NcclPeers group = trio.connect(20);
    trio.fake.polls = -1;
    REQUIRE_THROWS_WITH(
        group.call("ncclBroadcast", [&](std::size_t, ncclComm_t comm) { return trio.reduce(comm); }),
        contains("ncclBroadcast for GPU number 0 of 3: not finished"));
  }
  CHECK(trio.fake.count("abort") == 3);
  CHECK(trio.fake.count("destroy") == 0);
}

TEST_CASE("an error found in the background comes out of the call that follows") {
  Trio trio;
  NcclPeers group = trio.connect();
  trio.fake.outcome = ncclRemoteError;
  REQUIRE_THROWS_WITH(group.call("ncclReduce", [&](std::size_t, ncclComm_t c) { return trio.reduce(c); }),
                      contains(ncclGetErrorString(ncclRemoteError)));
  CHECK(trio.fake.count("abort") == 3);
}

TEST_CASE("the destructor finalizes all in one group, and aborts while an exception is under way") {
  Trio trio;
  {
    const NcclPeers group = trio.connect();
    trio.fake.calls.clear();
  }
  CHECK(trio.fake.calls == Calls{"group_start", "gpu 0", "finalize", "gpu 1", "finalize", "gpu 2", "finalize",
                                 "group_end", "destroy", "destroy", "destroy"});
  Trio unwinding;
  try {
    const NcclPeers group = unwinding.connect();
    throw TrainingError("elsewhere");
  } catch (const TrainingError&) {
  }
  CHECK(unwinding.fake.count("abort") == 3);
  CHECK(unwinding.fake.count("finalize") == 0);
}

}  // namespace
}  // namespace cxtrain

#else

TEST_CASE("NCCL's groups") { cxtrain::test::skip("built without CUDA, so there is no NCCL to test"); }

#endif
