#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/host_communicator.h"
#include "cxtrain/comm/staged_communicator.h"
#include "cxtrain/tensor/layout.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/reduce_op_name.h"

/// Host memory stands for the device: the path is the same, and HostCommunicator itself gives the answers.
namespace cxtrain {
namespace {

std::unique_ptr<HostCommunicator> host_communicator() {
  return std::make_unique<HostCommunicator>(test_world());
}

/// Differs from rank to rank; whole numbers, so that sums are exact.
at::Tensor values(std::int64_t count, at::ScalarType dtype) {
  return at::arange(count, at::kLong).remainder(13).add(test_world().rank()).to(dtype);
}

/// What all ranks' `mine` add up to.
at::Tensor summed(const at::Tensor& mine) {
  const int ranks = test_world().size();
  return mine.sub(test_world().rank()).mul(ranks).add(ranks * (ranks - 1) / 2);
}

TEST_CASE("staged sums in allocated memory are the host communicator's") {
  StagedCommunicator staged(host_communicator());
  const auto host = host_communicator();
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong, at::kByte}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max}) {
      CAPTURE(c10::toString(dtype), test::name_of(op));
      const at::Tensor memory = staged.allocate(1000, dtype, at::kCPU);
      CHECK(at::equal(memory, at::zeros({1000}, dtype)));
      const at::Tensor expected = host->allocate(1000, dtype, at::kCPU);
      memory.copy_(values(1000, dtype));
      expected.copy_(values(1000, dtype));
      staged.all_reduce(memory, op);
      staged.join();
      host->all_reduce(expected, op);
      CHECK(at::equal(memory, expected));
    }
  }
}

TEST_CASE(
    "allocated memory is known by its storage, as its address may become another tensor's on some ranks") {
  StagedCommunicator staged(host_communicator());
  const at::Tensor allocated = staged.allocate(512, at::kFloat, at::kCPU);
  const at::Tensor other = staged.rank() == 0 ? at::from_blob(allocated.mutable_data_ptr(), {512}, at::kFloat)
                                              : at::empty({512}, at::kFloat);
  other.fill_(1);
  staged.all_reduce(other, ReduceOp::sum);
  CHECK(at::equal(other, at::full({512}, static_cast<float>(staged.size()))));
}

TEST_CASE("staging a slice leaves the rest alone, and the next slice is staged anew") {
  StagedCommunicator staged(host_communicator());
  const int ranks = staged.size();
  const at::Tensor memory = staged.allocate(96, at::kFloat, at::kCPU);
  memory.fill_(1);
  for (int round = 1; round <= 3; ++round) {
    for (const std::int64_t begin : {0, 32}) {
      const at::Tensor slice = memory.narrow(0, begin, 32);
      slice.fill_(static_cast<float>(round * (staged.rank() + 1)));
      staged.all_reduce(slice, ReduceOp::sum);
      CHECK(at::equal(slice, at::full({32}, round * ranks * (ranks + 1) / 2, at::kFloat)));
    }
  }
  CHECK(at::equal(memory.narrow(0, 64, 32), at::full({32}, 1, at::kFloat)));
}

TEST_CASE("staging takes memory that it did not allocate, of any strides without gaps") {
  StagedCommunicator staged(host_communicator());
  at::Tensor mine =
      values(2 * 3 * 4 * 5, at::kFloat).view({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor expected = summed(mine);
  staged.all_reduce(mine, ReduceOp::sum);
  CHECK(at::equal(mine, expected));
  // Larger, of another type, after the smaller one.
  const at::Tensor more = values(5000, at::kLong);
  const at::Tensor wanted = summed(more);
  staged.all_reduce(more, ReduceOp::sum);
  CHECK(at::equal(more, wanted));
  const at::Tensor gaps = at::zeros({4, 4}, at::kFloat).slice(1, 0, 2);
  CHECK_THROWS_AS(staged.all_reduce(gaps, ReduceOp::sum), CommunicationError);
}

TEST_CASE("staged broadcast gives every rank the root's values") {
  StagedCommunicator staged(host_communicator());
  for (int root = 0; root < staged.size(); ++root) {
    const at::Tensor flags = at::full({77}, staged.rank() == root, at::kBool);
    staged.broadcast(flags, root);
    CHECK(flags.all().item<bool>());
    const at::Tensor numbers = at::full({3, 5}, staged.rank(), at::kFloat);
    staged.broadcast(numbers, root);
    CHECK(at::equal(numbers, at::full_like(numbers, root)));
  }
  staged.broadcast(at::zeros({0}, at::kFloat), 0);
}

TEST_CASE("staged shares are the host communicator's, apart and in place, of allocated memory and of other") {
  StagedCommunicator staged(host_communicator());
  const auto host = host_communicator();
  const int size = staged.size();
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kLong}) {
    for (const bool allocated : {true, false}) {
      for (const bool in_place : {true, false}) {
        CAPTURE(c10::toString(dtype), allocated, in_place);
        const at::Tensor whole =
            allocated ? staged.allocate(size * 100, dtype, at::kCPU) : at::empty({size * 100}, dtype);
        const at::Tensor expected = host->allocate(size * 100, dtype, at::kCPU);
        const at::Tensor place = whole.narrow(0, staged.rank() * 100, 100);
        const at::Tensor share = in_place ? place : at::empty({10, 10}, dtype).t();
        whole.copy_(values(size * 100, dtype));
        expected.copy_(whole);
        staged.reduce_scatter(share, whole, ReduceOp::sum);
        host->all_reduce(expected, ReduceOp::sum);
        CHECK(at::equal(flat(share), expected.narrow(0, staged.rank() * 100, 100)));
        staged.all_gather(whole, share);
        CHECK(at::equal(whole, expected));
      }
    }
  }
}

TEST_CASE("staged messages arrive, and a part of the ranks is staged as well") {
  StagedCommunicator staged(host_communicator());
  const int size = staged.size(), rank = staged.rank();
  const std::unique_ptr<Communicator> part = staged.split(rank == 0 ? -1 : 1, 0);
  CHECK((part == nullptr) == (rank == 0));
  if (part != nullptr) {
    CHECK(part->size() == size - 1);
    CHECK_THAT(part->description(), test::contains("host memory"));
    const at::Tensor ones = at::full({30}, 1, at::kFloat);
    part->all_reduce(ones, ReduceOp::sum);
    CHECK(at::equal(ones, at::full({30}, size - 1, at::kFloat)));
  }
  const at::Tensor memory = staged.allocate(50, at::kFloat, at::kCPU);
  memory.fill_(rank);
  if (rank != 0) staged.send(memory.narrow(0, 10, 20), 0);
  for (int from = 1; rank == 0 && from < size; ++from) {
    const at::Tensor received = at::zeros({4, 5}).t();
    staged.recv(received, from);
    CHECK(at::equal(received, at::full({5, 4}, from, at::kFloat)));
  }
  CHECK_THROWS_AS(staged.send(memory, size), CommunicationError);
  CHECK_THROWS_AS(staged.broadcast(memory, -1), CommunicationError);
  CHECK_THROWS_AS(staged.all_gather(memory, at::zeros({51})), CommunicationError);
}

TEST_CASE("the staged communicator says what it is") {
  const StagedCommunicator staged(host_communicator());
  CHECK_THAT(staged.description(), test::contains("host memory"));
  CHECK_FALSE(staged.overlaps());
  CHECK(staged.rank() == test_world().rank());
}

}  // namespace
}  // namespace cxtrain
