#include "cxtrain/data/sharded_sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <numeric>
#include "support/catch.h"
#include "support/error_text.h"

#include "cxtrain/base/error.h"

namespace {

using namespace cxtrain;
using Indices = std::vector<std::int64_t>;

Indices to_vector(std::span<const std::int64_t> span) { return {span.begin(), span.end()}; }

Indices sorted(Indices v) {
  std::sort(v.begin(), v.end());
  return v;
}

Indices counting(std::int64_t n) {
  Indices v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

std::vector<ShardedSampler> ranks(std::int64_t size, int count, const SamplerOptions& options,
                                  std::int64_t epoch) {
  std::vector<ShardedSampler> all;
  for (int i = 0; i < count; ++i) {
    all.emplace_back(size, DataShard{i, count}, options);
    all.back().start_epoch(epoch);
  }
  return all;
}

/// Global batch k in the order of the epoch: the ranks' samples, taken in turn.
Indices interleave(const std::vector<ShardedSampler>& all, std::int64_t k) {
  Indices joined;
  for (std::size_t i = 0; i < all.front().batch(k).size(); ++i) {
    for (const ShardedSampler& sampler : all) {
      if (i < sampler.batch(k).size()) joined.push_back(sampler.batch(k)[i]);
    }
  }
  return joined;
}

SamplerOptions shuffled(std::int64_t batch_size, Uneven uneven = Uneven::exact) {
  return {.batch_size = batch_size, .shuffle = true, .seed = 7, .uneven = uneven};
}

}  // namespace

TEST_CASE("a shuffled epoch has the order of torch's DistributedSampler", "[sampler]") {
  ShardedSampler sampler(50, {}, shuffled(50));
  sampler.start_epoch(3);
  const at::Tensor expected =
      at::randperm(50, at::detail::createCPUGenerator(7 + 3), at::TensorOptions().dtype(at::kLong));
  const auto* data = expected.const_data_ptr<std::int64_t>();
  CHECK(to_vector(sampler.batch(0)) == Indices(data, data + 50));
}

TEST_CASE("a global batch is the same for any number of ranks", "[sampler]") {
  const std::int64_t size = GENERATE(48, 53, 5, 1);
  for (const std::int64_t epoch : {0, 1, 5}) {
    const auto one = ranks(size, 1, shuffled(12), epoch);
    for (const int count : {2, 3, 4}) {
      const auto many = ranks(size, count, shuffled(12 / count), epoch);
      REQUIRE(many[0].num_batches() == one[0].num_batches());
      for (std::int64_t k = 0; k < one[0].num_batches(); ++k) {
        CHECK(interleave(many, k) == to_vector(one[0].batch(k)));
        CHECK(many[0].global_size(k) == one[0].global_size(k));
      }
    }
  }
}

TEST_CASE("every mode splits the samples among the ranks as it promises", "[sampler]") {
  const std::int64_t size = GENERATE(range(0, 40));
  const int count = GENERATE(1, 2, 3, 4);
  const Uneven uneven = GENERATE(Uneven::pad, Uneven::drop, Uneven::exact);
  const bool drop_last = GENERATE(false, true);
  SamplerOptions options = shuffled(3, uneven);
  options.drop_last = drop_last;
  const auto all = ranks(size, count, options, 2);
  const std::int64_t full = 3 * count;

  Indices seen;
  for (std::int64_t k = 0; k < all[0].num_batches(); ++k) {
    std::int64_t together = 0;
    for (const ShardedSampler& sampler : all) {
      REQUIRE(sampler.num_batches() == all[0].num_batches());
      const auto batch = sampler.batch(k);
      together += static_cast<std::int64_t>(batch.size());
      if (uneven != Uneven::exact) REQUIRE(batch.size() == all[0].batch(k).size());
      if (k + 1 < all[0].num_batches() || drop_last) REQUIRE(batch.size() == 3);
      REQUIRE(all[0].batch(k).size() - batch.size() <= 1);
    }
    REQUIRE(together == all[0].global_size(k));
    const Indices batch = interleave(all, k);
    seen.insert(seen.end(), batch.begin(), batch.end());
  }

  const auto read = static_cast<std::int64_t>(seen.size());
  Indices once = sorted(seen);
  once.erase(std::unique(once.begin(), once.end()), once.end());
  if (drop_last) {
    CHECK(read == size / full * full);
    CHECK(static_cast<std::int64_t>(once.size()) == read);
  } else if (uneven == Uneven::exact) {
    CHECK(sorted(seen) == counting(size));
  } else if (uneven == Uneven::pad) {
    CHECK(read == (size + count - 1) / count * count);
    CHECK(once == counting(size));
    // What is read twice is the beginning of the epoch's order.
    for (std::int64_t i = size; i < read; ++i) {
      CHECK(seen[static_cast<std::size_t>(i)] == seen[static_cast<std::size_t>(i % size)]);
    }
  } else {
    CHECK(read == size / count * count);
    CHECK(static_cast<std::int64_t>(once.size()) == read);
  }
}

TEST_CASE("epochs differ, and each comes again the same", "[sampler]") {
  ShardedSampler sampler(100, {1, 2}, shuffled(10));
  const Indices first = to_vector(sampler.batch(2));
  sampler.start_epoch(1);
  CHECK(to_vector(sampler.batch(2)) != first);
  sampler.start_epoch(0);
  CHECK(to_vector(sampler.batch(2)) == first);
  ShardedSampler other_seed(100, {1, 2}, {.batch_size = 10, .shuffle = true, .seed = 8});
  CHECK(to_vector(other_seed.batch(2)) != first);
}

TEST_CASE("without shuffle the order is the dataset's", "[sampler]") {
  ShardedSampler sampler(10, {1, 2}, {.batch_size = 2});
  sampler.start_epoch(4);
  CHECK(to_vector(sampler.batch(0)) == Indices{1, 3});
  CHECK(to_vector(sampler.batch(1)) == Indices{5, 7});
  CHECK(to_vector(sampler.batch(2)) == Indices{9});
  CHECK(sampler.global_size(2) == 2);
  CHECK(sampler.epoch() == 4);
}

TEST_CASE("a rank may have nothing in an exact last batch", "[sampler]") {
  const ShardedSampler sampler(13, {3, 4}, {.batch_size = 3, .uneven = Uneven::exact});
  REQUIRE(sampler.num_batches() == 2);
  CHECK(sampler.batch(1).empty());
  CHECK(sampler.global_size(1) == 1);
}

TEST_CASE("impossible samplers are refused", "[sampler]") {
  CHECK_THROWS_AS(ShardedSampler(10, {}, {.batch_size = 0}), ConfigError);
  CHECK_THROWS_AS(ShardedSampler(10, {2, 2}, {}), std::invalid_argument);
  CHECK_THROWS_AS(ShardedSampler(10, {}, {}).batch(10), std::out_of_range);
  class WithoutOrder : public Sampler {
    std::unique_ptr<const EpochOrder> order(std::int64_t, std::uint64_t, std::int64_t) const override {
      return nullptr;
    }
  };
  CHECK_THROWS_AS(ShardedSampler(10, {}, {.sampler = std::make_shared<WithoutOrder>()}), DataError);
}

TEST_CASE("a batch larger than the data takes the room of the data", "[sampler]") {
  const ShardedSampler one(10, {0, 1}, {.batch_size = 2147483647});
  CHECK(one.num_batches() == 1);
  CHECK(one.batch(0).size() == 10);
  CHECK_THROWS_WITH(ShardedSampler(10, {0, 1}, {.batch_size = std::int64_t{1} << 31}),
                    test::contains("data.batch_size"));
}

TEST_CASE("a size beyond any memory is no more than a number", "[sampler]") {
  const bool shuffle = GENERATE(false, true);
  const std::int64_t samples = std::int64_t{1} << 62;
  const ShardedSampler sampler(samples, {1, 2}, {.batch_size = 1, .shuffle = shuffle});
  CHECK(sampler.num_batches() == samples / 2);
  const std::int64_t index = sampler.batch(samples / 2 - 1).at(0);
  CHECK((shuffle ? index >= 0 && index < samples : index == samples - 1));
}
