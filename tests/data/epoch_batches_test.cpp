#include "cxtrain/data/epoch_batches.h"

#include <ATen/ops/arange.h>

#include <ATen/ops/tensor.h>
#include <algorithm>
#include <set>

#include "cxtrain/base/error.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/data/tensor_dataset.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

/// Samples are `first`, `first` + 1 ...
std::shared_ptr<const Dataset> numbers_from(std::int64_t first, std::int64_t size) {
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{at::arange(first, first + size, at::TensorOptions().dtype(at::kLong))});
}

/// 10 samples from 0 on in batches of 2, and 4 samples from 100 on in batches of 1, of each shard.
EpochBatches two_loaders(Combine mode, DataShard shard = {}, bool shuffle = false,
                         Uneven uneven = Uneven::pad) {
  const auto loader = [&](std::int64_t first, std::int64_t size, std::int64_t batch_size, const char* name) {
    return EpochBatches::Loader{
        numbers_from(first, size),
        ShardedSampler(size, shard,
                       {.batch_size = batch_size, .shuffle = shuffle, .seed = 3, .uneven = uneven}),
        name};
  };
  return EpochBatches({loader(0, 10, 2, "long"), loader(100, 3, 1, "short")}, mode);
}

std::vector<std::int64_t> values(const at::Tensor& tensor) {
  const auto* data = tensor.const_data_ptr<std::int64_t>();
  return {data, data + tensor.numel()};
}

using Values = std::vector<std::int64_t>;
using Sequence = std::vector<Values>;

/// The values of one loader's parts; empty where a batch lacks the part.
Sequence parts(const EpochBatches& batches, const std::string& name) {
  Sequence all;
  for (std::int64_t k = 0; k < batches.num_batches(); ++k) {
    Batch batch;
    batches.collate(k, false, batch);
    all.push_back(batch.has(name) ? values(batch.part(name)[0]) : Values{});
  }
  return all;
}

const Sequence kLong{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}};

TEST_CASE("loaders side by side: the longest decides, and shorter ones begin again") {
  const EpochBatches batches = two_loaders(Combine::max_size_cycle);
  CHECK(batches.num_batches() == 5);
  CHECK(batches.global_batch_size() == 3);
  CHECK(parts(batches, "long") == kLong);
  CHECK(parts(batches, "short") == Sequence{{100}, {101}, {102}, {100}, {101}});
  Batch batch;
  batches.collate(3, false, batch);
  CHECK(batch.size == 3);
  CHECK(batches.global_size(3) == 3);
  CHECK(batch.indices == Values{6, 7, 0});
  CHECK(batch.part("long").size == 2);
  CHECK(batch.part("short").size == 1);
  CHECK(batch.part("short").indices == Values{0});
  CHECK(batch["short.0"].item<std::int64_t>() == 100);
}

TEST_CASE("a loader that begins again is shuffled again, as in an epoch of its own") {
  EpochBatches batches = two_loaders(Combine::max_size_cycle, {}, /*shuffle=*/true);
  std::set<Values> orders;
  for (const std::int64_t epoch : {0, 1, 2, 3}) {
    batches.start_epoch(epoch);
    const Sequence all = parts(batches, "short");
    Values order{all[0][0], all[1][0], all[2][0]};
    orders.insert(order);
    std::sort(order.begin(), order.end());
    CHECK(order == Values{100, 101, 102});
    CHECK(batches.epoch() == epoch);
  }
  CHECK(orders.size() > 1);
  batches.start_epoch(2);
  const Sequence again = parts(batches, "short");
  batches.start_epoch(0);
  batches.start_epoch(2);
  CHECK(parts(batches, "short") == again);
}

TEST_CASE("loaders side by side may end with the shortest, or go on without a part") {
  const EpochBatches least = two_loaders(Combine::min_size);
  CHECK(least.num_batches() == 3);
  CHECK(parts(least, "long") == Sequence{{0, 1}, {2, 3}, {4, 5}});
  CHECK(parts(least, "short") == Sequence{{100}, {101}, {102}});

  const EpochBatches most = two_loaders(Combine::max_size);
  CHECK(most.num_batches() == 5);
  CHECK(parts(most, "long") == kLong);
  CHECK(parts(most, "short") == Sequence{{100}, {101}, {102}, {}, {}});
  CHECK(most.global_size(2) == 3);
  CHECK(most.global_size(3) == 2);
}

TEST_CASE("loaders one after the other") {
  const EpochBatches batches = two_loaders(Combine::sequential);
  CHECK(batches.num_batches() == 8);
  CHECK(batches.global_batch_size() == 2);
  Sequence all;
  std::vector<int> loaders;
  for (std::int64_t k = 0; k < batches.num_batches(); ++k) {
    Batch batch;
    batches.collate(k, false, batch);
    CHECK(batch.parts.empty());
    CHECK(batches.global_size(k) == batch.size);
    all.push_back(values(batch[0]));
    loaders.push_back(batches.dataloader_idx(k));
  }
  CHECK(all == Sequence{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {100}, {101}, {102}});
  CHECK(loaders == std::vector<int>{0, 0, 0, 0, 0, 1, 1, 1});
}

TEST_CASE("shards of combined loaders make the same global batches") {
  const Combine mode = GENERATE(Combine::max_size_cycle, Combine::max_size, Combine::min_size);
  EpochBatches whole({{numbers_from(0, 12), ShardedSampler(12, {}, {.batch_size = 4, .shuffle = true}), "a"},
                      {numbers_from(100, 4), ShardedSampler(4, {}, {.batch_size = 2, .shuffle = true}), "b"}},
                     mode);
  for (const std::string name : {"a", "b"}) {
    Sequence both(static_cast<std::size_t>(whole.num_batches()));
    for (int rank = 0; rank < 2; ++rank) {
      const DataShard shard{rank, 2};
      EpochBatches own(
          {{numbers_from(0, 12), ShardedSampler(12, shard, {.batch_size = 2, .shuffle = true}), "a"},
           {numbers_from(100, 4), ShardedSampler(4, shard, {.batch_size = 1, .shuffle = true}), "b"}},
          mode);
      REQUIRE(own.num_batches() == whole.num_batches());
      const Sequence seen = parts(own, name);
      for (std::size_t k = 0; k < seen.size(); ++k)
        both[k].insert(both[k].end(), seen[k].begin(), seen[k].end());
    }
    Sequence expected = parts(whole, name);
    for (Values& batch : expected) std::sort(batch.begin(), batch.end());
    for (Values& batch : both) std::sort(batch.begin(), batch.end());
    CHECK(both == expected);
  }
}

TEST_CASE("combined loaders that cannot be weighted or named are rejected") {
  CHECK_NOTHROW(two_loaders(Combine::max_size_cycle, {0, 2}));  // padded
  CHECK_NOTHROW(two_loaders(Combine::sequential, {0, 2}, false, Uneven::exact));
  const std::string error = test::error_of<ConfigError>([] {
    two_loaders(Combine::max_size, {0, 2}, false, Uneven::exact);
  });
  CHECK(error.find("'short' has 1 samples for 2 ranks") != std::string::npos);
  const auto named = [](const char* a, const char* b) {
    EpochBatches({{numbers_from(0, 4), ShardedSampler(4, {}, {}), a},
                  {numbers_from(0, 4), ShardedSampler(4, {}, {}), b}});
  };
  CHECK_THROWS_AS(named("a", "a"), ConfigError);
  CHECK_THROWS_AS(named("a", "b.c"), ConfigError);
  CHECK_THROWS_AS(named("a", ""), ConfigError);
  CHECK_THROWS_AS(EpochBatches({{numbers_from(0, 4), ShardedSampler(4, {}, {}), "a"},
                                {numbers_from(0, 0), ShardedSampler(0, {}, {}), "b"}}),
                  ConfigError);
}

/// Adds a number on the device.
class Shifted final : public Dataset {
 public:
  explicit Shifted(std::int64_t shift) : shift_(shift) {}
  std::int64_t size() const override { return 4; }
  Batch get(std::int64_t index, SampleRandom&) const override {
    return Batch::named({{"x", at::arange(index, index + 1, at::kLong)}});
  }
  void on_after_batch_transfer(Batch& batch) const override { batch.tensors[0] = batch[0] + shift_; }

 private:
  std::int64_t shift_;
};

TEST_CASE("each loader finishes its part, with any number of workers") {
  const int workers = GENERATE(0, 2);
  const auto loader = [](std::int64_t shift, const char* name) {
    return EpochBatches::Loader{std::make_shared<Shifted>(shift), ShardedSampler(4, {}, {.batch_size = 2}),
                                name};
  };
  DataLoader read(EpochBatches({loader(10, "a"), loader(20, "b")}), {.num_workers = workers});
  read.start_epoch(0);
  Batch batch;
  REQUIRE(read.next(batch));
  REQUIRE(read.next(batch));
  CHECK(values(batch.part("a")["x"]) == Values{12, 13});
  CHECK(values(batch.part("b")["x"]) == Values{22, 23});
  CHECK(batch["b.x"].sizes() == at::IntArrayRef({2, 1}));
  read.finish(batch);
  CHECK(values(batch["b.x"]) == Values{42, 43});
  CHECK(batch.part("b").size == 2);
  CHECK_FALSE(read.next(batch));
}

TEST_CASE("a loader's dataset may add a tensor to its part") {
  class Masked final : public Dataset {
   public:
    std::int64_t size() const override { return 2; }
    Batch get(std::int64_t index, SampleRandom&) const override { return {.tensors = {at::tensor(index)}}; }
    void on_after_batch_transfer(Batch& batch) const override { batch.tensors.push_back(batch[0] > 0); }
  };
  const auto loader = [](const char* name) {
    return EpochBatches::Loader{std::make_shared<Masked>(), ShardedSampler(2, {}, {.batch_size = 2}), name};
  };
  DataLoader read(EpochBatches({loader("a"), loader("b")}), {});
  read.start_epoch(0);
  Batch batch;
  REQUIRE(read.next(batch));
  CHECK(values(batch["a.0"]) == Values{0, 1});
  CHECK(values(batch["b.1"].to(at::kLong)) == Values{0, 1});
}

}  // namespace
}  // namespace cxtrain
