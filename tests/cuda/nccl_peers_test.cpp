#include "cxtrain/cuda/nccl_peers.h"

#include <ATen/ops/zeros.h>

#include "cxtrain/base/error.h"
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

/// Three devices in one process; what they are does not matter to what is asked of NCCL.
struct Trio {
  FakeNccl fake;
  NcclLibrary api = fake.api();
  ScriptedWorld world{0, 1};
  std::vector<c10::Device> devices = std::vector<c10::Device>(3, c10::Device(c10::kCPU));
};

TEST_CASE("the devices of a process are connected as one group, in one call that waits") {
  Trio trio;
  const NcclPeers peers(trio.world, trio.devices, trio.api);
  CHECK(trio.fake.blocking == 1);
  CHECK(trio.fake.calls == Calls{"id", "group_start", "init", "init", "init", "group_end"});
}

TEST_CASE("devices that cannot connect are told by name, and given up") {
  Trio trio;
  trio.fake.status = ncclSystemError;
  trio.fake.last_error = "out of luck";
  REQUIRE_THAT(error_of([&] { NcclPeers(trio.world, trio.devices, trio.api); }),
               contains(code(MessageCode::communication_failed)) && contains("ncclCommInitRankConfig") &&
                   contains("number 0") && contains("3 devices") && contains("out of luck") &&
                   contains("NCCL_DEBUG"));
  CHECK(trio.fake.count("group_end") == 1);
  CHECK(trio.fake.count("abort") == 1);  // the one that had come to be
}

TEST_CASE(
    "the end of a process's communicators finalizes all in one group, and aborts while an exception is under "
    "way") {
  Trio trio;
  { const NcclPeers peers(trio.world, trio.devices, trio.api); }
  CHECK((Calls(trio.fake.calls.begin() + 6, trio.fake.calls.end()) ==
         Calls{"group_start", "finalize", "finalize", "finalize", "group_end", "destroy", "destroy",
               "destroy"}));
  Trio unwinding;
  try {
    const NcclPeers peers(unwinding.world, unwinding.devices, unwinding.api);
    throw TrainingError("elsewhere");
  } catch (const TrainingError&) {
  }
  CHECK(unwinding.fake.count("abort") == 3);
  CHECK(unwinding.fake.count("finalize") == 0);
}

TEST_CASE("an error that NCCL finds between the devices of a process reaches the watchdog") {
  Trio trio;
  const NcclPeers peers(trio.world, trio.devices, trio.api);
  trio.fake.async = ncclUnhandledCudaError;
  CHECK_THAT(trio.world.alarms.first(Watchdog::Cause::error), contains("the fake's CUDA error"));
}

}  // namespace
}  // namespace cxtrain
