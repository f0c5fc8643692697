#include "cxtrain/comm/parts_communicator.h"

#include <ATen/ops/empty.h>

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
  std::vector<PartsCommunicator::Part> parts;
  parts.push_back({at::kCPU, std::move(first)});
  parts.push_back({at::kMeta, std::move(second)});
  PartsCommunicator communicator(std::move(parts));
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

}  // namespace
}  // namespace cxtrain
