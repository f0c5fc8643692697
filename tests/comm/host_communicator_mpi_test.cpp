#include "cxtrain/comm/host_communicator.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

/// All ranks on one node, or (to test what crosses nodes) on pretended nodes of `per_node` ranks.
HostCommunicator make(int per_node) {
  MpiWorld& world = test_world();
  if (per_node == 0) return HostCommunicator(world, 30);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split(world.comm(), world.rank() / per_node, world.rank(), &node);
  const MpiComm owner(node);
  return HostCommunicator(world, node, 30);
}

TEST_CASE("all_reduce adds exactly, in the shared window and outside, on one node and on several") {
  MpiWorld& world = test_world();
  const int per_node = GENERATE(0, 1, 2);
  HostCommunicator communicator = make(per_node);
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong}) {
    for (const std::int64_t count : {1, 3, 1000, 70000}) {
      for (const bool in_window : {true, false}) {
        CAPTURE(per_node, c10::toString(dtype), count, in_window);
        const at::Tensor tensor =
            in_window ? communicator.allocate(count, dtype, at::kCPU) : at::zeros({count}, dtype);
        REQUIRE(at::equal(tensor, at::zeros({count}, dtype)));
        for (int repeat = 0; repeat < 3; ++repeat) {
          tensor.fill_(world.rank() + 1 + repeat);
          communicator.all_reduce(tensor, ReduceOp::sum);
          const int ranks = world.size(), sum = ranks * (ranks + 1) / 2 + ranks * repeat;
          CHECK(at::equal(tensor, at::full({count}, sum, dtype)));
        }
      }
    }
  }
}

TEST_CASE("all_reduce averages, takes minimum and maximum") {
  MpiWorld& world = test_world();
  HostCommunicator communicator = make(GENERATE(0, 2));
  const at::Tensor tensor = communicator.allocate(5000, at::kFloat, at::kCPU);
  const auto reduced = [&](ReduceOp op) {
    tensor.fill_(4.0 * world.rank());
    communicator.all_reduce(tensor, op);
    return tensor[4999].item<double>();
  };
  CHECK(reduced(ReduceOp::avg) == Catch::Approx(2.0 * (world.size() - 1)));
  CHECK(reduced(ReduceOp::min) == 0);
  CHECK(reduced(ReduceOp::max) == 4.0 * (world.size() - 1));
}

TEST_CASE("a part of an allocation is reduced alone, and parts do not disturb each other") {
  MpiWorld& world = test_world();
  HostCommunicator communicator = make(0);
  const at::Tensor arena = communicator.allocate(3000, at::kFloat, at::kCPU);
  arena.fill_(1);
  communicator.all_reduce(arena.narrow(0, 1000, 1000), ReduceOp::sum);
  world.barrier();
  CHECK(at::equal(arena.narrow(0, 0, 1000), at::full({1000}, 1.0f)));
  CHECK(at::equal(arena.narrow(0, 1000, 1000), at::full({1000}, static_cast<float>(world.size()))));
  CHECK(at::equal(arena.narrow(0, 2000, 1000), at::full({1000}, 1.0f)));
}

TEST_CASE("all ranks get the same bits of a sum that rounds") {
  MpiWorld& world = test_world();
  HostCommunicator communicator = make(GENERATE(0, 2));
  const at::Tensor tensor = communicator.allocate(4096, at::kFloat, at::kCPU);
  at::manual_seed(static_cast<std::uint64_t>(world.rank()) + 1);
  tensor.normal_();
  communicator.all_reduce(tensor, ReduceOp::avg);
  const std::string bytes(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  for (const std::string& other : world.all_gather(bytes)) CHECK(other == bytes);
}

TEST_CASE("broadcast gives every rank the root's values, whatever the dtype and layout") {
  MpiWorld& world = test_world();
  HostCommunicator communicator = make(0);
  const int root = world.size() - 1;
  for (const at::ScalarType dtype : {at::kFloat, at::kBool, at::kLong, at::kHalf}) {
    const at::Tensor tensor = at::full({64, 33}, world.rank() == root ? 1 : 0, dtype).t();
    communicator.broadcast(tensor, root);
    CHECK(tensor.to(at::kDouble).sum().item<double>() == 64 * 33);
  }
}

TEST_CASE("a tensor with gaps is refused with the cure") {
  HostCommunicator communicator = make(0);
  const at::Tensor gaps = at::zeros({10, 10}).narrow(1, 0, 5);
  CHECK_THROWS_WITH(communicator.all_reduce(gaps, ReduceOp::sum), cxtrain::test::contains("contiguous"));
}

TEST_CASE("a rank that stays away is noticed within the timeout") {
  MpiWorld& world = test_world();
  if (world.size() == 1) return;
  HostCommunicator communicator(world, 0.5);
  const at::Tensor tensor = communicator.allocate(10, at::kFloat, at::kCPU);
  if (world.rank() != 0) {
    CHECK_THROWS_WITH(communicator.all_reduce(tensor, ReduceOp::sum),
                      cxtrain::test::contains("ranks of this node came within") &&
                          cxtrain::test::contains("timeout_seconds"));
  }
  world.barrier();
}

}  // namespace
}  // namespace cxtrain
