#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/host_communicator.h"
#include "support/reduce_op_name.h"

/// What HostCommunicator moves and reduces, besides all_reduce and broadcast.
namespace cxtrain {
namespace {

using test::code;
using test::contains;
using test::error_of;

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max};

/// Other ones on each rank; sums of the floats are rounded.
at::Tensor own_values(std::int64_t count, at::ScalarType dtype, std::uint64_t seed) {
  at::manual_seed(seed * 100 + static_cast<std::uint64_t>(test_world().rank()));
  if (at::isFloatingType(dtype)) return at::randn({count}, dtype);
  return at::randint(0, dtype == at::kBool ? 2 : 60, {count}, at::kLong).to(dtype);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(a.contiguous().view(at::kByte), b.contiguous().view(at::kByte));
}

at::Tensor memory_for(Communicator& communicator, std::int64_t count, at::ScalarType dtype, bool allocated) {
  return allocated ? communicator.allocate(count, dtype, at::kCPU) : at::empty({count}, dtype);
}

void check_reduce_scatter_bits(Communicator& communicator, const at::Tensor& input, const at::Tensor& whole,
                               std::int64_t count, ReduceOp op, bool in_place) {
  const std::int64_t begin = communicator.rank() * count, size = communicator.size();
  const at::Tensor before = own_values(size * count, input.scalar_type(), 7);
  whole.copy_(before);
  communicator.all_reduce(whole, op);
  input.copy_(before);
  const at::Tensor share = input.narrow(0, begin, count);
  const at::Tensor output = in_place ? share : at::empty({count}, input.scalar_type());
  communicator.reduce_scatter(output, input, op);
  CHECK(same_bits(output, whole.narrow(0, begin, count)));
  if (in_place) share.copy_(before.narrow(0, begin, count));
  CHECK(same_bits(input, before));
}

TEST_CASE("reduce_scatter gives each rank its share of what all_reduce gives, to the bit") {
  HostCommunicator communicator = test::host_communicator(GENERATE(0, 1, 2));
  const int size = communicator.size();
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong, at::kByte}) {
    for (const bool allocated : {true, false}) {
      const at::Tensor input = memory_for(communicator, size * 3333, dtype, allocated);
      const at::Tensor whole = memory_for(communicator, size * 3333, dtype, allocated);
      for (const std::int64_t count : {0, 1, 7, 3333}) {
        for (const ReduceOp op : kOps) {
          for (const bool in_place : {false, true}) {
            CAPTURE(communicator.description(), c10::toString(dtype), allocated, count, test::name_of(op),
                    in_place);
            check_reduce_scatter_bits(communicator, input.narrow(0, 0, size * count),
                                      whole.narrow(0, 0, size * count), count, op, in_place);
          }
        }
      }
    }
  }
}

TEST_CASE("reduce_scatter of more than one piece, and of a part of an allocation") {
  HostCommunicator communicator = test::host_communicator(GENERATE(0, 1, 2));
  const std::int64_t size = communicator.size(), count = 1'300'003;  // 5.2 MB a rank
  for (const bool allocated : {true, false}) {
    const at::Tensor input = memory_for(communicator, size * count + 50, at::kFloat, allocated);
    const at::Tensor whole = memory_for(communicator, size * count + 50, at::kFloat, allocated);
    CAPTURE(communicator.description(), allocated);
    check_reduce_scatter_bits(communicator, input.narrow(0, 17, size * count),
                              whole.narrow(0, 17, size * count), count, ReduceOp::avg, allocated);
  }
}

/// Every rank's `own_values`, one after the other.
at::Tensor everyones(const at::Tensor& mine) {
  std::vector<at::Tensor> parts;
  const std::string bytes(static_cast<const char*>(mine.const_data_ptr()), mine.nbytes());
  for (const std::string& other : test_world().all_gather(bytes)) {
    at::Tensor part = at::empty_like(mine);
    std::copy(other.begin(), other.end(), static_cast<char*>(part.mutable_data_ptr()));
    parts.push_back(std::move(part));
  }
  return at::cat(parts);
}

void check_all_gather(Communicator& communicator, const at::Tensor& output, bool in_place,
                      std::uint64_t seed) {
  const std::int64_t count = output.numel() / communicator.size();
  const at::Tensor mine = own_values(count, output.scalar_type(), seed), expected = everyones(mine);
  output.zero_();
  const at::Tensor share = output.narrow(0, communicator.rank() * count, count);
  if (in_place) share.copy_(mine);
  communicator.all_gather(output, in_place ? share : mine);
  communicator.join();
  CHECK(same_bits(output, expected));
}

TEST_CASE("all_gather puts every rank's values side by side, whatever the dtype and the memory") {
  HostCommunicator communicator = test::host_communicator(GENERATE(0, 1, 2));
  const int size = communicator.size();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong, at::kByte, at::kBool}) {
    for (const bool allocated : {true, false}) {
      const at::Tensor memory = memory_for(communicator, size * 5001 + 3, dtype, allocated);
      std::uint64_t seed = 0;
      for (const std::int64_t count : {0, 1, 7, 5001}) {
        for (const bool in_place : {false, true}) {
          CAPTURE(communicator.description(), c10::toString(dtype), allocated, count, in_place);
          check_all_gather(communicator, memory.narrow(0, 3, size * count), in_place, ++seed);
        }
      }
    }
  }
}

TEST_CASE("all_gather of more than one piece") {
  HostCommunicator communicator = test::host_communicator(GENERATE(0, 2));
  const bool allocated = GENERATE(true, false);
  const std::int64_t count = 1'300'003;
  check_all_gather(communicator, memory_for(communicator, communicator.size() * count, at::kFloat, allocated),
                   allocated, 3);
}

TEST_CASE("gathering again and again gives the newest values: nobody is read too early") {
  HostCommunicator communicator = test::host_communicator(GENERATE(0, 1, 2));
  const at::Tensor all = communicator.allocate(communicator.size() * 1000, at::kLong, at::kCPU);
  const at::Tensor share = all.narrow(0, communicator.rank() * 1000, 1000);
  for (std::int64_t step = 0; step < 300; ++step) {
    share.fill_(step + communicator.rank());
    communicator.all_gather(all, share);
    communicator.join();
    for (int r = 0; r < communicator.size(); ++r)
      REQUIRE(all[r * 1000 + 999].item<std::int64_t>() == step + r);
  }
}

TEST_CASE("messages travel round a ring, of any size and dtype") {
  HostCommunicator communicator = test::host_communicator(0);
  const int size = communicator.size(), rank = communicator.rank();
  if (size == 1) return test::skip_for_ranks("a rank does not send to itself");
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBool}) {
    for (const std::int64_t count : {0, 1, 77, 1'500'001}) {
      CAPTURE(c10::toString(dtype), count);
      const at::Tensor token = rank == 0 ? at::arange(count, at::kLong).remainder(2).to(dtype)
                                         : memory_for(communicator, count, dtype, false);
      if (rank == 0) communicator.send(token, next);
      const at::Tensor arrived = rank == 0 ? at::zeros({count}, dtype) : token;
      communicator.recv(arrived, previous);
      if (rank != 0) communicator.send(arrived, next);
      CHECK(at::equal(arrived, at::arange(count, at::kLong).remainder(2).to(dtype)));
    }
  }
}

TEST_CASE("messages between two ranks keep their order, and those of several ranks do not mix") {
  HostCommunicator communicator = test::host_communicator(0);
  const int last = communicator.size() - 1;
  for (int message = 0; message < 10; ++message) {
    if (communicator.rank() == last) {
      for (int from = 0; from < last; ++from) {
        const at::Tensor received = at::zeros({message + 1, 2}, at::kLong).t();
        communicator.recv(received, from);
        CHECK(at::equal(received, at::full({2, message + 1}, 100 * from + message, at::kLong)));
      }
    } else {
      communicator.send(at::full({2, message + 1}, 100 * communicator.rank() + message, at::kLong), last);
    }
  }
}

TEST_CASE("a message of another size than expected is an error with both sizes") {
  HostCommunicator communicator = test::host_communicator(0);
  if (communicator.size() == 1) return test::skip_for_ranks("there is nobody to send to");
  if (communicator.rank() == 0) communicator.send(at::zeros({3}), 1);
  if (communicator.rank() == 1) {
    CHECK_THAT(error_of([&] { communicator.recv(at::zeros({5}), 0); }),
               contains(code(MessageCode::bad_tensor)) && contains("rank 0") && contains("12 bytes") &&
                   contains("20"));
  }
  if (communicator.rank() == 0) communicator.send(at::zeros({5}), 1);
  if (communicator.rank() == 1) CHECK_THROWS_AS(communicator.recv(at::zeros({3}), 0), CommunicationError);
}

/// All that a communicator can do, with results that tell which ranks took part.
void check_everything(Communicator& part, const std::vector<int>& members) {
  const int size = static_cast<int>(members.size());
  REQUIRE(part.size() == size);
  REQUIRE(members[static_cast<std::size_t>(part.rank())] == test_world().rank());
  int total = 0;
  for (const int member : members) total += member;
  for (const bool allocated : {true, false}) {
    CAPTURE(allocated);
    const at::Tensor memory = memory_for(part, size * 100, at::kLong, allocated);
    memory.fill_(test_world().rank());
    part.all_reduce(memory, ReduceOp::sum);
    CHECK(at::equal(memory, at::full({size * 100}, total, at::kLong)));
    memory.fill_(test_world().rank());
    const at::Tensor share = memory.narrow(0, part.rank() * 100, 100);
    part.reduce_scatter(share, memory, ReduceOp::sum);
    CHECK(at::equal(share, at::full({100}, total, at::kLong)));
    share.fill_(test_world().rank());
    part.all_gather(memory, share);
    part.join();
    for (int r = 0; r < size; ++r)
      CHECK(memory[r * 100 + 99].item<int>() == members[static_cast<std::size_t>(r)]);
  }
  const at::Tensor value = at::full({5}, test_world().rank(), at::kLong);
  part.broadcast(value, size - 1);
  CHECK(value[4].item<int>() == members.back());
  if (size == 1) return;
  if (part.rank() == 0) part.send(at::full({1}, 5, at::kLong), 1);
  if (part.rank() == 1) {
    part.recv(value.narrow(0, 0, 1), 0);
    CHECK(value[0].item<int>() == 5);
  }
}

TEST_CASE("split: ranks of one color form a communicator of their own, in the order of their keys") {
  MpiWorld& world = test_world();
  const int per_node = GENERATE(0, 1, 2);
  const bool reversed = GENERATE(false, true);
  CAPTURE(per_node, reversed);
  std::unique_ptr<Communicator> half;
  {
    HostCommunicator whole = test::host_communicator(per_node);
    half = whole.split(world.rank() % 2, reversed ? -world.rank() : 0);
    check_everything(whole, [&] {
      std::vector<int> all;
      for (int r = 0; r < world.size(); ++r) all.push_back(r);
      return all;
    }());
  }  // the half needs it no more
  REQUIRE(half != nullptr);
  std::vector<int> members;
  for (int r = 0; r < world.size(); ++r) {
    if (r % 2 == world.rank() % 2) members.insert(reversed ? members.begin() : members.end(), r);
  }
  check_everything(*half, members);
  const std::unique_ptr<Communicator> alone = half->split(half->rank(), 0);
  check_everything(*alone, {world.rank()});
}

TEST_CASE("split with a negative color leaves a rank out") {
  MpiWorld& world = test_world();
  HostCommunicator whole = test::host_communicator(0);
  const bool out = world.rank() == world.size() - 1;
  const std::unique_ptr<Communicator> part = whole.split(out ? -5 : 0, 0);
  REQUIRE((part == nullptr) == out);
  if (out) return;
  std::vector<int> members;
  for (int r = 0; r + 1 < world.size(); ++r) members.push_back(r);
  check_everything(*part, members);
}

TEST_CASE("memory of allocate is there after its communicator, and for another one it is like any other") {
  MpiWorld& world = test_world();
  at::Tensor slice;
  {
    HostCommunicator first = test::host_communicator(0);
    const at::Tensor memory = first.allocate(50000, at::kFloat, at::kCPU);
    memory.fill_(world.rank() + 1);
    slice = memory.narrow(0, 10000, 20000);
    first.all_reduce(slice, ReduceOp::sum);
  }
  const int ranks = world.size(), sum = ranks * (ranks + 1) / 2;
  CHECK(at::equal(slice, at::full({20000}, sum, at::kFloat)));
  slice.fill_(world.rank());
  HostCommunicator second = test::host_communicator(0);
  second.all_reduce(slice, ReduceOp::max);
  CHECK(at::equal(slice, at::full({20000}, ranks - 1, at::kFloat)));
}

int mapped_windows() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:cxtrain") != std::string::npos;
  return count;
}

TEST_CASE("memory that no rank holds any more is given back when more is asked for") {
  MpiWorld& world = test_world();
  HostCommunicator communicator = test::host_communicator(0);
  const int before = mapped_windows();
  at::Tensor kept = communicator.allocate(1000, at::kFloat, at::kCPU);
  if (world.rank() != 0) kept.reset();  // one rank is enough to keep it
  for (int repeat = 0; repeat < 5; ++repeat) {
    const at::Tensor memory = communicator.allocate(3000, at::kFloat, at::kCPU);
    memory.fill_(1);
    communicator.all_reduce(memory, ReduceOp::sum);
    CHECK(memory[2999].item<int>() == world.size());
    CHECK(mapped_windows() == before + 2);
  }
  kept.reset();
  const at::Tensor last = communicator.allocate(10, at::kFloat, at::kCPU);
  CHECK(mapped_windows() == before + 1);
}

TEST_CASE("arguments that do not fit are refused before anything is sent") {
  HostCommunicator communicator = test::host_communicator(0);
  const int size = communicator.size(), rank = communicator.rank();
  const at::Tensor whole = at::zeros({size * 10}), share = at::zeros({10});
  const at::Tensor gaps = at::zeros({10, 2}).select(1, 0);
  using enum ReduceOp;
  CHECK_THROWS_WITH(communicator.reduce_scatter(at::zeros({9}), whole, sum),
                    contains("reduce_scatter") && contains("pad"));
  CHECK_THROWS_WITH(communicator.all_gather(whole, at::zeros({11})),
                    contains("all_gather") && contains("11"));
  CHECK_THROWS_WITH(communicator.all_gather(whole, share.to(at::kDouble)), contains("Double"));
  CHECK_THROWS_WITH(communicator.reduce_scatter(gaps, whole, sum), contains("contiguous"));
  CHECK_THROWS_WITH(communicator.all_gather(at::zeros({size * 10, 2}).select(1, 0), share),
                    contains("contiguous"));
  CHECK_THROWS_WITH(
      communicator.reduce_scatter(at::zeros({10}, at::kBool), at::zeros({size * 10}, at::kBool), sum),
      contains("Bool"));
  const at::Tensor memory = at::zeros({size * 10 + 10});
  const at::Tensor shifted = memory.narrow(0, rank * 10 + 5, 10);  // neither its share nor apart
  CHECK_THROWS_WITH(communicator.all_gather(memory.narrow(0, 0, size * 10), shifted), contains("overlaps"));
  CHECK_THROWS_WITH(communicator.reduce_scatter(shifted, memory.narrow(0, 0, size * 10), sum),
                    contains("overlaps"));
  CHECK_THAT(error_of([&] { communicator.broadcast(share, size); }),
             contains(code(MessageCode::bad_tensor)) && contains("rank " + std::to_string(size)));
  CHECK_THAT(error_of([&] { communicator.send(share, -1); }),
             contains(code(MessageCode::bad_tensor)) && contains("send:") && contains("rank -1"));
  CHECK_THAT(error_of([&] { communicator.recv(share, rank); }),
             contains(code(MessageCode::bad_tensor)) && contains(("rank " + std::to_string(rank))));
  CHECK_THROWS_WITH(communicator.send(gaps, (rank + 1) % size), contains("contiguous"));
  // It is as good as before.
  share.fill_(rank);
  communicator.all_gather(whole, share);
  communicator.join();
  CHECK(whole[size * 10 - 1].item<int>() == size - 1);
}

}  // namespace
}  // namespace cxtrain
