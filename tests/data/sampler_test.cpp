#include "cxtrain/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/data/sample_random.h"
#include "cxtrain/data/sharded_sampler.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace {

using namespace cxtrain;
using Indices = std::vector<std::int64_t>;

Indices order_of(const Sampler& sampler, std::int64_t samples, std::int64_t epoch = 0,
                 std::uint64_t seed = 7) {
  const auto order = sampler.order(samples, seed, epoch);
  Indices indices;
  for (std::int64_t i = 0; i < sampler.size(samples); ++i) indices.push_back(order->at(i));
  return indices;
}

bool is_permutation_of_all(Indices indices) {
  std::sort(indices.begin(), indices.end());
  for (std::int64_t i = 0; i < std::ssize(indices); ++i) {
    if (indices[static_cast<std::size_t>(i)] != i) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a computed shuffle is a permutation of any size, another in each epoch", "[sampler]") {
  const ShuffleSampler computed(/*table=*/0);
  for (const std::int64_t samples : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
    CAPTURE(samples);
    CHECK(is_permutation_of_all(order_of(computed, samples)));
    CHECK(order_of(computed, samples) == order_of(computed, samples));
  }
  CHECK(order_of(computed, 1000, 0) != order_of(computed, 1000, 1));
  CHECK(order_of(computed, 1000, 0, 7) != order_of(computed, 1000, 0, 8));
}

TEST_CASE("a computed shuffle leaves no pattern between neighbours", "[sampler]") {
  // The steps from one sample to the next are spread over all sizes: in each of 10 classes about a tenth.
  const std::int64_t samples = 20000;
  const Indices order = order_of(ShuffleSampler(0), samples);
  std::vector<int> classes(10);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::int64_t step = (order[i] - order[i - 1] + samples) % samples;
    ++classes[static_cast<std::size_t>(step * 10 / samples)];
  }
  for (const int count : classes) CHECK(std::abs(count - 2000) < 200);  // 4.7 standard deviations
}

TEST_CASE("an epoch of 10^12 samples takes no memory", "[sampler]") {
  const std::int64_t samples = 1'000'000'000'000;
  ShardedSampler sampler(samples, {1, 4}, {.batch_size = 8, .shuffle = true});
  CHECK(sampler.num_batches() == samples / 32);
  const Indices batch = sampler.batch(sampler.num_batches() - 1);
  CHECK(batch.size() == 8);
  for (const std::int64_t index : batch) CHECK((index >= 0 && index < samples));
}

TEST_CASE("weights are the shares of the draws", "[sampler]") {
  const std::vector<double> weights{1, 0, 2, 5, 0, 12};
  const Indices drawn = order_of(WeightedSampler(weights, 60000), std::ssize(weights));
  CHECK(drawn.size() == 60000);
  std::map<std::int64_t, int> counts;
  for (const std::int64_t index : drawn) ++counts[index];
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double expected = 60000 * weights[i] / 20;
    CHECK(std::abs(counts[static_cast<std::int64_t>(i)] - expected) <= 5 * std::sqrt(expected));
  }
  CHECK(order_of(WeightedSampler(weights, 100), 6, 0) != order_of(WeightedSampler(weights, 100), 6, 1));
}

TEST_CASE("equal weights, one weight and tiny weights make whole alias tables", "[sampler]") {
  for (const std::vector<double>& weights :
       {std::vector<double>(7, 3.0), std::vector<double>{1e-300, 0, 1e-300}, std::vector<double>{0, 0, 4}}) {
    for (const std::int64_t index : order_of(WeightedSampler(weights, 500), std::ssize(weights)))
      CHECK(weights[static_cast<std::size_t>(index)] > 0);
  }
}

TEST_CASE("the draw without replacement leaves the augmentation of samples as it is", "[sampler]") {
  const std::vector<double> weights(1000, 1.0);
  double sum = 0;
  for (const std::int64_t index : order_of(WeightedSampler(weights, 100, /*replacement=*/false), 1000, 2))
    sum += SampleRandom(7, 2, index).uniform();
  CHECK(std::abs(sum / 100 - 0.5) < 0.15);  // 5 standard deviations
}

TEST_CASE("without replacement no sample comes twice, and heavy ones come first", "[sampler]") {
  std::vector<double> weights(100, 1.0);
  for (std::size_t i = 90; i < 100; ++i) weights[i] = 1e6;
  weights[0] = 0;
  Indices drawn = order_of(WeightedSampler(weights, 50, /*replacement=*/false), 100);
  CHECK(std::all_of(drawn.begin(), drawn.begin() + 8, [](std::int64_t index) { return index >= 90; }));
  std::sort(drawn.begin(), drawn.end());
  CHECK(std::adjacent_find(drawn.begin(), drawn.end()) == drawn.end());
  CHECK(drawn.front() > 0);
}

TEST_CASE("samples of similar lengths come together, the longest first", "[sampler]") {
  Indices lengths(100);
  for (std::int64_t i = 0; i < 100; ++i) lengths[static_cast<std::size_t>(i)] = i * 37 % 101;
  const Indices order = order_of(LengthGroupedSampler(lengths, 20), 100);
  CHECK(is_permutation_of_all(order));
  const auto length = [&](std::size_t i) { return lengths[static_cast<std::size_t>(order[i])]; };
  CHECK(length(0) == *std::max_element(lengths.begin(), lengths.end()));
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (i % 20 != 0) CHECK(length(i) <= length(i - 1));
  }
}

TEST_CASE("any sampler's global batches are the same on any number of ranks", "[sampler]") {
  const std::vector<double> weights{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  const auto weighted = std::make_shared<WeightedSampler>(weights, 30);
  const auto batch_of = [&](int ranks, std::int64_t k) {
    Indices joined;
    for (int rank = 0; rank < ranks; ++rank) {
      ShardedSampler sampler(11, {rank, ranks}, {.batch_size = 12 / ranks, .sampler = weighted});
      sampler.start_epoch(3);
      for (const std::int64_t index : sampler.batch(k)) joined.push_back(index);
    }
    std::sort(joined.begin(), joined.end());
    return joined;
  };
  for (const std::int64_t k : {0, 1}) {
    for (const int ranks : {2, 3, 4}) CHECK(batch_of(ranks, k) == batch_of(1, k));
  }
}

TEST_CASE("a sampler that does not fit its data is rejected", "[sampler]") {
  const auto refusal = [](const std::function<void()>& work) { return test::error_of<Error>(work); };
  using test::contains;
  CHECK_THAT(refusal([] { WeightedSampler({1, -2}); }), contains("weight 1") && contains("-2"));
  CHECK_THAT(refusal([] { WeightedSampler({0, 0}); }), contains(test::code(MessageCode::bad_data)));
  CHECK_THAT(refusal([] { WeightedSampler({1, 0, 0}, 2, false); }), contains("2") && contains("1"));
  CHECK_THAT(refusal([] { LengthGroupedSampler({1}, 0); }), contains("0"));
  CHECK_THAT(refusal([] {
               ShardedSampler(3, {}, {.sampler = std::make_shared<WeightedSampler>(std::vector{1.0})});
             }),
             contains("1") && contains("3"));
  struct Beyond final : Sampler {
    std::unique_ptr<const EpochOrder> order(std::int64_t, std::uint64_t, std::int64_t) const override {
      struct One final : EpochOrder {
        std::int64_t at(std::int64_t position) const override { return position + 1; }
      };
      return std::make_unique<One>();
    }
  };
  const ShardedSampler beyond(3, {}, {.batch_size = 3, .sampler = std::make_shared<Beyond>()});
  CHECK_THAT(refusal([&] { beyond.batch(0); }), contains("sample 3 of a dataset of 3"));
}
