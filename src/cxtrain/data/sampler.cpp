#include "cxtrain/data/sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/data/sample_random.h"

namespace cxtrain {
namespace {

class Identity final : public EpochOrder {
 public:
  std::int64_t at(std::int64_t position) const override { return position; }
};

class Table final : public EpochOrder {
 public:
  explicit Table(std::vector<std::int64_t> order) : order_(std::move(order)) {}
  std::int64_t at(std::int64_t position) const override { return order_[static_cast<std::size_t>(position)]; }

 private:
  std::vector<std::int64_t> order_;
};

class Randperm final : public EpochOrder {
 public:
  Randperm(std::int64_t samples, std::uint64_t seed)
      : permutation_(at::randperm(samples, at::detail::createCPUGenerator(seed),
                                  at::TensorOptions().dtype(at::kLong))),
        order_(permutation_.const_data_ptr<std::int64_t>()) {}
  std::int64_t at(std::int64_t position) const override { return order_[position]; }

 private:
  at::Tensor permutation_;
  const std::int64_t* order_;
};

/// A permutation of [0, samples) that is computed: a balanced Feistel network on the next power of four, and
/// from a number beyond `samples` on to its image, until one lies below.
class Feistel final : public EpochOrder {
 public:
  Feistel(std::int64_t samples, std::uint64_t seed, std::int64_t epoch)
      : samples_(static_cast<std::uint64_t>(samples)),
        half_((static_cast<int>(std::bit_width(samples_ > 0 ? samples_ - 1 : 0)) + 1) / 2) {
    SampleRandom random(seed, epoch, /*index=*/0);
    for (std::uint64_t& key : keys_) key = static_cast<std::uint64_t>(random.below(std::int64_t{1} << 62));
  }
  std::int64_t at(std::int64_t position) const override {
    auto number = static_cast<std::uint64_t>(position);
    do number = permuted(number);
    while (number >= samples_);
    return static_cast<std::int64_t>(number);
  }

 private:
  std::uint64_t permuted(std::uint64_t number) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
    std::uint64_t left = number >> half_, right = number & mask;
    for (const std::uint64_t key : keys_) {
      std::uint64_t x = (right ^ key) * 0xff51afd7ed558ccd;  // MurmurHash3's finaliser
      x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
      left = std::exchange(right, left ^ ((x ^ (x >> 33)) & mask));
    }
    return left << half_ | right;
  }

  static constexpr std::size_t kRounds = 8;
  std::uint64_t samples_;
  int half_;  ///< bits of each half
  std::array<std::uint64_t, kRounds> keys_{};
};

[[noreturn]] void refuse_sampler(const std::string& what, const std::string& hint) {
  throw ConfigError("data", what, hint, MessageCode::bad_data);
}

void require_one_each(std::size_t values, std::int64_t samples, const std::string& what) {
  if (static_cast<std::int64_t>(values) == samples) return;
  refuse_sampler("the sampler has " + std::to_string(values) + " " + what + ", and the dataset has " +
                     std::to_string(samples) + " samples",
                 "give one for each sample");
}

}  // namespace

std::unique_ptr<const EpochOrder> SequentialSampler::order(std::int64_t, std::uint64_t, std::int64_t) const {
  return std::make_unique<Identity>();
}

std::unique_ptr<const EpochOrder> ShuffleSampler::order(std::int64_t samples, std::uint64_t seed,
                                                        std::int64_t epoch) const {
  if (samples <= table_) return std::make_unique<Randperm>(samples, seed + static_cast<std::uint64_t>(epoch));
  return std::make_unique<Feistel>(samples, seed, epoch);
}

/// Draw number `position` of an epoch, by the alias table.
class WeightedSampler::Draws final : public EpochOrder {
 public:
  Draws(std::shared_ptr<const Alias> alias, std::uint64_t seed, std::int64_t epoch)
      : alias_(std::move(alias)), seed_(seed), epoch_(epoch) {}
  std::int64_t at(std::int64_t position) const override {
    SampleRandom random(seed_, epoch_, position);
    const std::int64_t drawn = random.below(std::ssize(alias_->keep));
    const auto i = static_cast<std::size_t>(drawn);
    return random.uniform() < alias_->keep[i] ? drawn : alias_->other[i];
  }

 private:
  std::shared_ptr<const Alias> alias_;
  std::uint64_t seed_;
  std::int64_t epoch_;
};

WeightedSampler::WeightedSampler(std::vector<double> weights, std::int64_t num_samples, bool replacement)
    : weights_(std::move(weights)),
      num_samples_(num_samples > 0 ? num_samples : std::ssize(weights_)),
      replacement_(replacement) {
  const auto wrong = [](double weight) { return !std::isfinite(weight) || weight < 0; };
  const auto found = std::ranges::find_if(weights_, wrong);
  if (found != weights_.end()) {
    refuse_sampler(
        "weight " + std::to_string(found - weights_.begin()) + " of the sampler is " + std::to_string(*found),
        "weights are finite, and not negative");
  }
  const auto drawn = weights_.size() - static_cast<std::size_t>(std::ranges::count(weights_, 0));
  if (drawn == 0) refuse_sampler("no weight of the sampler is above 0", "give one sample a weight");
  if (!replacement && num_samples_ > static_cast<std::int64_t>(drawn)) {
    refuse_sampler("without replacement an epoch of " + std::to_string(num_samples_) +
                       " samples needs as many " + "weights above 0, found " + std::to_string(drawn),
                   "a smaller num_samples, or replacement");
  }
  if (replacement) build_alias();
}

/// Vose (1991): each column of height 1 holds a part of its own sample, and is filled up by another's.
void WeightedSampler::build_alias() {
  const std::size_t count = weights_.size();
  const double mean = std::accumulate(weights_.begin(), weights_.end(), 0.0) / static_cast<double>(count);
  auto alias = std::make_shared<Alias>();
  alias->keep.resize(count);
  alias->other.resize(count);
  std::vector<std::size_t> low, high;
  for (std::size_t i = 0; i < count; ++i) {
    alias->keep[i] = weights_[i] / mean;
    alias->other[i] = static_cast<std::int64_t>(i);
    (alias->keep[i] < 1 ? low : high).push_back(i);
  }
  while (!low.empty() && !high.empty()) {
    const std::size_t small = low.back(), large = high.back();
    low.pop_back();
    alias->other[small] = static_cast<std::int64_t>(large);
    alias->keep[large] -= 1 - alias->keep[small];
    if (alias->keep[large] >= 1) continue;
    high.pop_back();
    low.push_back(large);
  }
  // Rounding leaves columns that are full but for an epsilon. A sample without a weight is never drawn.
  const auto heaviest = std::ranges::max_element(weights_) - weights_.begin();
  for (const std::size_t i : low) {
    if (weights_[i] > 0) {
      alias->keep[i] = 1;
    } else {
      alias->other[i] = heaviest;
    }
  }
  for (const std::size_t i : high) alias->keep[i] = 1;
  alias_ = std::move(alias);
}

std::int64_t WeightedSampler::size(std::int64_t samples) const {
  require_one_each(weights_.size(), samples, "weights");
  return num_samples_;
}

std::unique_ptr<const EpochOrder> WeightedSampler::order(std::int64_t, std::uint64_t seed,
                                                         std::int64_t epoch) const {
  if (replacement_) return std::make_unique<Draws>(alias_, seed, epoch);
  // The samples of the largest keys log(u) / w. The keys are drawn in a layer of their own: augmentation
  // draws from layer 0, and would depend on the choice.
  constexpr int kLayer = -1;
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    SampleRandom random(seed, epoch, static_cast<std::int64_t>(i), kLayer);
    keys.emplace_back(-std::log(1 - random.uniform()) / weights_[i], static_cast<std::int64_t>(i));
  }
  std::ranges::sort(keys);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < num_samples_; ++i) order.push_back(keys[static_cast<std::size_t>(i)].second);
  return std::make_unique<Table>(std::move(order));
}

LengthGroupedSampler::LengthGroupedSampler(std::vector<std::int64_t> lengths, std::int64_t group)
    : lengths_(std::move(lengths)), group_(group) {
  if (group < 1)
    refuse_sampler("groups of " + std::to_string(group) + " samples were asked for", "use 1 or more");
}

std::int64_t LengthGroupedSampler::size(std::int64_t samples) const {
  require_one_each(lengths_.size(), samples, "lengths");
  return samples;
}

std::unique_ptr<const EpochOrder> LengthGroupedSampler::order(std::int64_t samples, std::uint64_t seed,
                                                              std::int64_t epoch) const {
  const Randperm shuffled(samples, seed + static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  for (std::int64_t i = 0; i < samples; ++i) order[static_cast<std::size_t>(i)] = shuffled.at(i);
  const auto longer = [this](std::int64_t a, std::int64_t b) {
    return lengths_[static_cast<std::size_t>(a)] > lengths_[static_cast<std::size_t>(b)];
  };
  const auto at = [&](std::int64_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
  std::int64_t longest = 0;  // where its group begins
  for (std::int64_t begin = 0; begin < samples; begin += group_) {
    std::stable_sort(at(begin), at(std::min(begin + group_, samples)), longer);
    if (longer(*at(begin), *at(longest))) longest = begin;
  }
  std::rotate(at(0), at(longest), at(std::min(longest + group_, samples)));
  return std::make_unique<Table>(std::move(order));
}

}  // namespace cxtrain
