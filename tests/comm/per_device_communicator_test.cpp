#include "cxtrain/comm/per_device_communicator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/fake_communicator.h"

namespace cxtrain {
namespace {

using Calls = std::vector<std::string>;

TEST_CASE("a rank with several devices has a communicator for each of them") {
  auto first = std::make_unique<test::FakeCommunicator>(2),
       second = std::make_unique<test::FakeCommunicator>(2);
  const test::FakeCommunicator &on_cpu = *first, &on_meta = *second;
  std::vector<PerDeviceCommunicator::Member> members;
  members.push_back({at::kCPU, std::move(first)});
  members.push_back({at::kMeta, std::move(second)});
  PerDeviceCommunicator communicator(std::move(members));
  CHECK(communicator.size() == 2);

  const at::Tensor mine = communicator.allocate(3, at::kFloat, at::kMeta);
  CHECK(mine.device() == at::kMeta);
  communicator.all_reduce(mine, ReduceOp::avg);
  communicator.broadcast(communicator.allocate(5, at::kFloat, at::kCPU), 0);
  communicator.join();
  CHECK(on_meta.calls == Calls{"all_reduce avg 3", "join"});
  CHECK(on_cpu.calls == Calls{"broadcast 5", "join"});
  REQUIRE_THROWS_WITH(
      communicator.allocate(1, at::kFloat, at::Device(at::kCUDA, 1)),
      test::contains("cuda:1") && test::contains("cpu, meta") && test::contains("part_device"));
}

TEST_CASE("shares and messages, too, go by their device, and a split goes through all") {
  auto first = std::make_unique<test::FakeCommunicator>(2),
       second = std::make_unique<test::FakeCommunicator>(2);
  test::FakeCommunicator &on_cpu = *first, &on_meta = *second;
  on_cpu.part_size = on_meta.part_size = 3;
  std::vector<PerDeviceCommunicator::Member> members;
  members.push_back({at::kCPU, std::move(first)});
  members.push_back({at::kMeta, std::move(second)});
  PerDeviceCommunicator communicator(std::move(members));
  const at::Tensor whole = at::ones({8});
  communicator.reduce_scatter(at::empty({4}), whole, ReduceOp::max);
  communicator.all_gather(whole, at::ones({4}));
  communicator.send(at::empty({2}, at::kMeta), 1);
  on_cpu.incoming.push_back(at::ones({8}).mul(7));
  communicator.recv(whole, 1);
  CHECK(whole[7].item<float>() == 7);
  const auto half = communicator.split(1, 5);
  REQUIRE(half != nullptr);
  CHECK(half->size() == 3);
  half->all_reduce(at::ones({2}), ReduceOp::min);
  REQUIRE_THROWS_AS(half->allocate(1, at::kFloat, at::Device(at::kCUDA, 0)), CommunicationError);
  CHECK(communicator.split(-1, 0) == nullptr);
  CHECK(on_cpu.calls ==
        Calls{"reduce_scatter max 4", "all_gather 4", "recv 8 from 1", "split 1 5", "split -1 0"});
  CHECK(on_meta.calls == Calls{"send 2 to 1", "split 1 5", "split -1 0"});
  REQUIRE_THROWS_AS(communicator.all_gather(whole, at::empty({4}, at::kMeta)), CommunicationError);
}

}  // namespace
}  // namespace cxtrain
