#include "cxtrain/comm/node/node_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cxtrain/memory/malloc_tuning.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

constexpr std::size_t kKiB = std::size_t{1} << 10;

std::shared_ptr<MemPool> make_pool(const std::vector<std::size_t>& sizes) {
  const auto memory = SharedMemory::create(MemPool::bytes_for(sizes));
  REQUIRE(memory != nullptr);
  return std::make_shared<MemPool>(std::shared_ptr<std::byte>(memory, memory->data()), sizes);
}

TEST_CASE("a pool has as many places of each size as it was named, and one more") {
  const auto pool = make_pool({40 * kKiB, 64 * kKiB + 4, 40 * kKiB, 100});
  for (const auto& [bytes, places] :
       {std::pair{40 * kKiB, 3}, {64 * kKiB + 4, 2}, {100, 0}, {64 * kKiB, 0}}) {
    CAPTURE(bytes);
    std::vector<void*> taken;
    while (void* const place = pool->take(bytes)) taken.push_back(place);
    CHECK(static_cast<int>(taken.size()) == places);
    for (void* const place : taken) {
      CHECK(pool->contains(place));
      pool->give(place);
    }
    CHECK(pool->taken() == 0);
  }
  CHECK(MemPool::bytes_for(std::vector<std::size_t>{100, 200}) == 0);
}

TEST_CASE("places never overlap, and come back in any order") {
  std::mt19937 random(3);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 40; ++i) sizes.push_back((32 + random() % 8) * kKiB);
  for (const std::size_t large : {2048, 3000, 3000, 5000}) sizes.push_back(large * kKiB);
  const auto pool = make_pool(sizes);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(sizes.begin(), sizes.end(), random);
    std::vector<unsigned char*> places;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      places.push_back(static_cast<unsigned char*>(pool->take(sizes[i])));
      REQUIRE(places.back() != nullptr);
      std::memset(places.back(), static_cast<int>(i), sizes[i]);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      CHECK(places[i][0] == i);
      CHECK(places[i][sizes[i] - 1] == i);
    }
    std::shuffle(places.begin(), places.end(), random);
    for (unsigned char* const place : places) pool->give(place);
  }
}

TEST_CASE("tensors of a pool's sizes lie in it while it is in use, and may outlive it") {
  keep_freed_memory();
  REQUIRE(tensor_pools_in_effect());
  auto pool = make_pool({20000 * sizeof(float)});
  const std::weak_ptr<MemPool> watch = pool;
  const MemPool* const address = pool.get();
  const auto in_pool = [&](const at::Tensor& tensor) { return address->contains(tensor.const_data_ptr()); };
  CHECK_FALSE(in_pool(at::empty({20000})));
  at::Tensor survivor;
  {
    const UseTensorPool use(std::move(pool));
    survivor = at::full({100, 200}, 7.0f);
    CHECK(in_pool(survivor));
    CHECK_FALSE(in_pool(at::empty({20001})));
    CHECK_FALSE(in_pool(at::empty({5000})));
    const at::Tensor second = at::empty({20000}), third = at::empty({20000});
    CHECK(in_pool(second));
    CHECK_FALSE(in_pool(third));  // full
  }
  CHECK_FALSE(in_pool(at::empty({20000})));
  REQUIRE_FALSE(watch.expired());
  CHECK(watch.lock()->taken() == 1);
  CHECK(survivor[99][199].item<float>() == 7);
  std::thread([&] { survivor.reset(); }).join();
  CHECK(watch.expired());
}

TEST_CASE("memory can be mapped again by its address, and a false address is refused") {
  const auto memory = SharedMemory::create(10000);
  REQUIRE(memory != nullptr);
  CHECK(memory->data()[9999] == std::byte{0});
  const auto again = SharedMemory::open(memory->address());
  REQUIRE(again != nullptr);
  CHECK(again->data() != memory->data());
  again->data()[77] = std::byte{5};
  CHECK(memory->data()[77] == std::byte{5});

  auto elsewhere = memory->address();
  ++elsewhere.inode;  // as when the process number is somebody else's here
  CHECK(SharedMemory::open(elsewhere) == nullptr);
  auto larger = memory->address();
  larger.bytes *= 2;  // touching the second half would kill
  CHECK(SharedMemory::open(larger) == nullptr);
  auto nobody = memory->address();
  nobody.file = 99999;
  CHECK(SharedMemory::open(nobody) == nullptr);
}

TEST_CASE("memory in a file is mapped by its name, until that is forgotten, and lives on without it") {
  const auto memory = SharedMemory::create_file(10000);
  REQUIRE(memory != nullptr);
  REQUIRE(memory->take_room(0, 10000));
  CHECK(memory->data()[9999] == std::byte{0});
  const auto address = memory->address();
  REQUIRE(std::filesystem::exists(address.name));
  auto again = SharedMemory::open(address);
  REQUIRE(again != nullptr);
  auto elsewhere = address;
  ++elsewhere.device;  // as when the name is another file's here
  CHECK(SharedMemory::open(elsewhere) == nullptr);

  memory->forget_name();
  CHECK_FALSE(std::filesystem::exists(address.name));
  CHECK(SharedMemory::open(address) == nullptr);
  again->data()[77] = std::byte{5};
  CHECK(memory->data()[77] == std::byte{5});
}

TEST_CASE("a file that nobody has opened leaves nothing behind, and one that is too large is not made") {
  auto memory = SharedMemory::create_file(5000);
  REQUIRE(memory != nullptr);
  const std::string name = memory->address().name;
  memory.reset();
  CHECK_FALSE(std::filesystem::exists(name));
  const std::size_t room = std::filesystem::space("/dev/shm").capacity;  // other programs may free some
  CHECK(SharedMemory::create_file(room + (std::size_t{1} << 20)) == nullptr);
  memory = SharedMemory::create_file(5000);
  REQUIRE(memory != nullptr);
  CHECK_FALSE(memory->take_room(5000, room));
}

}  // namespace
}  // namespace cxtrain
