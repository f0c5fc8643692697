#include "cxtrain/comm/host_communicator.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/huge_pages.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "support/catch.h"
#include "support/host_communicator.h"
#include "support/skip.h"

namespace cxtrain {
namespace {

/// Ranks of a pretended node (0: all), and the way between nodes.
struct Layout {
  int per_node;
  NetworkWay way;
};

Layout generate_layout() {
  return GENERATE(Layout{0, NetworkWay::automatic}, Layout{1, NetworkWay::tcp}, Layout{2, NetworkWay::tcp},
                  Layout{1, NetworkWay::mpi}, Layout{2, NetworkWay::mpi});
}

TEST_CASE("all_reduce adds exactly, in the shared window and outside, on one node and on several") {
  MpiWorld& world = test_world();
  const auto [per_node, way] = generate_layout();
  HostCommunicator communicator = test::host_communicator(per_node, way);
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong}) {
    for (const std::int64_t count : {1, 3, 1000, 70000}) {
      for (const bool in_window : {true, false}) {
        CAPTURE(communicator.description(), c10::toString(dtype), count, in_window);
        const at::Tensor tensor =
            in_window ? communicator.allocate(count, dtype, at::kCPU) : at::zeros({count}, dtype);
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
  HostCommunicator communicator = test::host_communicator(GENERATE(0, 2));
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

TEST_CASE("a part of an allocation is reduced alone, and slices do not disturb each other") {
  MpiWorld& world = test_world();
  HostCommunicator communicator = test::host_communicator(0);
  const at::Tensor arena = communicator.allocate(3000, at::kFloat, at::kCPU);
  arena.fill_(1);
  communicator.all_reduce(arena.narrow(0, 1000, 1000), ReduceOp::sum);
  world.barrier();
  CHECK(at::equal(arena.narrow(0, 0, 1000), at::full({1000}, 1.0f)));
  CHECK(at::equal(arena.narrow(0, 1000, 1000), at::full({1000}, static_cast<float>(world.size()))));
  CHECK(at::equal(arena.narrow(0, 2000, 1000), at::full({1000}, 1.0f)));
}

/// Pieces of an allocation, some of whose values lie in the communicator's pool: which ones differs between
/// ranks.
struct Scattered {
  at::Tensor memory;
  std::shared_ptr<MemPool> pool;
  std::vector<NodeMemory::Slice> slices;

  Scattered(HostCommunicator& communicator, at::ScalarType dtype, const std::vector<std::int64_t>& counts,
            unsigned seed) {
    std::vector<std::size_t> sizes;
    std::int64_t total = 0;
    for (const std::int64_t count : counts) {
      sizes.push_back(static_cast<std::size_t>(count) * c10::elementSize(dtype));
      slices.push_back({total, {}});
      total += (count + 63) / 64 * 64;
    }
    memory = communicator.allocate(total, dtype, at::kCPU);
    pool = communicator.node_memory()->mem_pool(sizes);
    std::mt19937 random(seed);
    const UseTensorPool use(pool);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const at::Tensor place = memory.narrow(0, slices[i].offset, counts[i]);
      const at::Tensor elsewhere = at::empty({counts[i]}, dtype);
      const bool stays = random() % 3 == 0 || pool == nullptr || !pool->contains(elsewhere.const_data_ptr());
      slices[i].values = stays ? place : elsewhere;
      if (!stays) ++in_pool;
    }
  }
  int in_pool = 0;
};

TEST_CASE("slices are reduced wherever they lie, on one node and on several, as if they lay in one piece") {
  MpiWorld& world = test_world();
  const auto [per_node, way] = generate_layout();
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16, at::kInt);
  std::mt19937 random(9);
  std::vector<std::int64_t> counts;
  for (int i = 0; i < 25; ++i)
    counts.push_back(static_cast<std::int64_t>(random() % (i % 3 == 0 ? 200 : 60000) + 1));
  counts.push_back(1'000'000);  // several blocks for each rank
  HostCommunicator communicator = test::host_communicator(per_node, way);
  const Scattered scattered(communicator, dtype, counts, static_cast<unsigned>(world.rank()));
  CAPTURE(communicator.description(), c10::toString(dtype));
  CHECK((scattered.in_pool > 5) ==
        (world.size() > 1 && per_node != 1 && !(per_node == 2 && world.size() == 3 && world.rank() == 2)));
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      scattered.slices[i].values.fill_(world.rank() + static_cast<int>(i) % 7 + repeat);
    }
    communicator.node_memory()->all_reduce_slices(scattered.memory, scattered.slices, ReduceOp::sum);
    communicator.join();
    const int ranks = world.size();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const int sum = ranks * (ranks - 1) / 2 + ranks * (static_cast<int>(i) % 7 + repeat);
      REQUIRE(at::equal(scattered.slices[i].values, at::full({counts[i]}, sum, dtype)));
    }
  }
}

/// The average over all ranks of random numbers, which each rank draws for itself; in pieces of `piece`
/// elements, all of which are begun before the first is waited for.
at::Tensor average_in_pieces(HostCommunicator& communicator, std::int64_t count, std::int64_t piece) {
  const at::Tensor memory = communicator.allocate(count, at::kFloat, at::kCPU);
  at::manual_seed(static_cast<std::uint64_t>(communicator.rank()));
  memory.copy_(at::randn({count}));
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    const at::Tensor part = memory.narrow(0, begin, std::min(piece, count - begin));
    const NodeMemory::Slice slice{.offset = 0, .values = part};
    communicator.node_memory()->all_reduce_slices(part, {&slice, 1}, ReduceOp::avg);
  }
  communicator.join();
  return memory.clone();
}

TEST_CASE("a sum has the same bits however ranks lie on nodes, and however it is cut into pieces") {
  const int ranks = test_world().size();
  if (ranks == 3) return test::skip_for_ranks("nodes of two ranks and of one are no halves of a whole");
  const std::int64_t count = 300'000;
  HostCommunicator one_node = test::host_communicator();
  const at::Tensor expected = average_in_pieces(one_node, count, count);
  const auto [per_node, way] = generate_layout();
  HostCommunicator communicator = test::host_communicator(per_node, way);
  for (const std::int64_t piece : {std::int64_t{1'024}, std::int64_t{64'000}, count}) {
    CAPTURE(communicator.description(), piece);
    CHECK(at::equal(average_in_pieces(communicator, count, piece), expected));
  }
  const at::Tensor whole = communicator.allocate(count, at::kFloat, at::kCPU);
  at::manual_seed(static_cast<std::uint64_t>(communicator.rank()));
  whole.copy_(at::randn({count}));
  communicator.all_reduce(whole, ReduceOp::avg);
  CHECK(at::equal(whole, expected));
}

TEST_CASE("each rank gets its share of slices wherever they lie, with the bits of a whole reduction") {
  MpiWorld& world = test_world();
  const auto [per_node, way] = generate_layout();
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  const std::int64_t share = 70'016;
  std::vector<std::int64_t> counts(world.size(), 65'000);
  counts.push_back(3'000);
  HostCommunicator communicator = test::host_communicator(per_node, way);
  const Scattered scattered(communicator, dtype, counts, static_cast<unsigned>(world.rank()));
  const at::Tensor memory = communicator.allocate(share * world.size(), dtype, at::kCPU);
  const at::Tensor expected = communicator.allocate(share * world.size(), dtype, at::kCPU);
  expected.zero_();
  std::vector<NodeMemory::Slice> slices = scattered.slices;
  at::manual_seed(static_cast<std::uint64_t>(world.rank()));
  for (NodeMemory::Slice& slice : slices) {
    const at::Tensor values = at::randn(slice.values.sizes()).to(dtype);
    const at::Tensor place = memory.narrow(0, slice.offset, values.numel());
    // A slice that is not in the pool lies in the memory of the call, which has a share for each rank.
    if (slice.values.storage().data() == scattered.memory.storage().data()) slice.values = place;
    slice.values.copy_(values);
    expected.narrow(0, slice.offset, values.numel()).copy_(values);
  }
  communicator.all_reduce(expected, ReduceOp::avg);
  const at::Tensor own = at::zeros({share}, dtype);
  NodeMemory& node = *communicator.node_memory();
  const int others = GENERATE(0, 1);  // before and after
  const auto begin_others = [&] {
    for (int i = 0; i < others; ++i) {
      const at::Tensor nothing = communicator.allocate(64 * world.size(), dtype, at::kCPU);
      node.begin_scatter({at::zeros({64}, dtype), nothing, {}}, ReduceOp::avg);
    }
  };
  begin_others();
  node.begin_scatter({own, memory, slices}, ReduceOp::avg);
  begin_others();
  node.end_scatters();
  const std::int64_t begin = share * world.rank();
  for (const NodeMemory::Slice& slice : slices) {
    const std::int64_t first = std::max(begin, slice.offset),
                       last = std::min(begin + share, slice.offset + slice.values.numel());
    if (first >= last) continue;
    CHECK(at::equal(own.slice(0, first - begin, last - begin), expected.slice(0, first, last)));
  }
}

TEST_CASE("a tensor that happens to lie in the pool is reduced like any other") {
  MpiWorld& world = test_world();
  HostCommunicator communicator = test::host_communicator(0);
  const std::vector<std::size_t> sizes(4, 20000 * sizeof(float));
  // A later pool does not make the first one's places alike.
  const auto pool = communicator.node_memory()->mem_pool(sizes);
  const auto later = communicator.node_memory()->mem_pool(sizes);
  const UseTensorPool use(pool);
  const at::Tensor first = at::empty({20000}), second = at::empty({20000});
  const at::Tensor& mine = world.rank() % 2 == 0 ? first : second;  // not at the same place everywhere
  mine.fill_(1);
  communicator.all_reduce(mine, ReduceOp::sum);
  CHECK(at::equal(mine, at::full({20000}, static_cast<float>(world.size()))));
}

TEST_CASE("ranks of a node map one memory, without a name or of a file, and nothing is left behind") {
  using Backing = SharedMemory::Backing;
  MpiWorld& world = test_world();
  for (const auto backing : {Backing::anonymous, Backing::file}) {
    const auto memory = SharedMemory::of_node(world.node_comm(), 1000, {backing});
    REQUIRE(memory != nullptr);
    CHECK(memory->address().name[0] == '\0');
    CHECK(memory->data()[999] == std::byte{0});
    memory->data()[world.rank()] = static_cast<std::byte>(world.rank() + 1);
    world.barrier();
    for (int rank = 0; rank < world.size(); ++rank)
      CHECK(memory->data()[rank] == static_cast<std::byte>(rank + 1));
  }
}

TEST_CASE("each rank of a node has a segment of a window") {
  MpiWorld& world = test_world();
  for (const std::size_t bytes : {std::size_t{1000}, kHugePage + 1000}) {
    const auto window = SharedWindow::allocate(world.node_comm(), bytes);
    REQUIRE(window);
    CHECK(reinterpret_cast<std::uintptr_t>(window->own()) % (bytes < kHugePage ? 4096 : kHugePage) == 0);
    CHECK(window->contains(window->own() + bytes - 1));
    CHECK_FALSE(window->contains(window->own() + bytes));
    std::fill_n(window->own(), bytes, static_cast<std::byte>(world.rank() + 1));
    world.barrier();
    for (int rank = 0; rank < world.size(); ++rank) {
      CHECK(window->segment(rank)[0] == static_cast<std::byte>(rank + 1));
      CHECK(window->segment(rank)[bytes - 1] == static_cast<std::byte>(rank + 1));
    }
    world.barrier();
  }
}

TEST_CASE("all ranks get the same bits of a sum that rounds") {
  MpiWorld& world = test_world();
  HostCommunicator communicator = test::host_communicator(GENERATE(0, 2));
  const at::Tensor tensor = communicator.allocate(4096, at::kFloat, at::kCPU);
  at::manual_seed(static_cast<std::uint64_t>(world.rank()) + 1);
  tensor.normal_();
  communicator.all_reduce(tensor, ReduceOp::avg);
  const std::string bytes(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  for (const std::string& other : world.all_gather(bytes)) CHECK(other == bytes);
}

TEST_CASE("broadcast gives every rank the root's values, whatever the dtype and layout") {
  MpiWorld& world = test_world();
  HostCommunicator communicator = test::host_communicator(0);
  const int root = world.size() - 1;
  for (const at::ScalarType dtype : {at::kFloat, at::kBool, at::kLong, at::kHalf}) {
    const at::Tensor tensor = at::full({64, 33}, world.rank() == root ? 1 : 0, dtype).t();
    communicator.broadcast(tensor, root);
    CHECK(tensor.to(at::kDouble).sum().item<double>() == 64 * 33);
  }
}

TEST_CASE("a tensor with gaps is refused with the cure") {
  HostCommunicator communicator = test::host_communicator(0);
  const at::Tensor gaps = at::zeros({10, 10}).narrow(1, 0, 5);
  CHECK_THROWS_WITH(communicator.all_reduce(gaps, ReduceOp::sum), cxtrain::test::contains("contiguous"));
}

}  // namespace
}  // namespace cxtrain
