#include "cxtrain/data/dataset_views.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/transformed.h"

namespace cxtrain {
namespace {

/// A dataset whose samples a function makes, one by one, from other datasets. `first`, one of these datasets,
/// finishes batches.
class SampleView final : public Dataset {
 public:
  using MakeSample = std::function<Batch(std::int64_t index, SampleContext context)>;
  SampleView(DatasetPtr first, std::int64_t size, MakeSample make_sample)
      : first_(std::move(first)), size_(size), make_sample_(std::move(make_sample)) {}

  std::int64_t size() const override { return size_; }
  void collate(std::span<const std::int64_t> indices, const SampleContext& context,
               Batch& batch) const override {
    SampleContext below = context;
    below.pin_memory = false;  // the batch is pinned, its samples are not
    const std::vector<Batch> samples =
        transformed(indices, [&](std::int64_t index) { return make_sample_(index, below); });
    stack_samples(samples, indices, context, batch);
  }
  void on_after_batch_transfer(Batch& batch) const override { first_->on_after_batch_transfer(batch); }

 private:
  DatasetPtr first_;
  std::int64_t size_;
  MakeSample make_sample_;
};

class Subset final : public Dataset {
 public:
  Subset(DatasetPtr dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {
    for (const std::int64_t index : indices_) {
      if (index >= 0 && index < dataset_->size()) continue;
      throw DataError("a subset names sample " + std::to_string(index) + " of a dataset of " +
                      std::to_string(dataset_->size()));
    }
  }

  std::int64_t size() const override { return std::ssize(indices_); }
  void collate(std::span<const std::int64_t> indices, const SampleContext& context,
               Batch& batch) const override {
    const std::vector<std::int64_t> below = transformed(
        indices, [this](std::int64_t index) { return indices_[static_cast<std::size_t>(index)]; });
    dataset_->collate(below, context, batch);
  }
  void on_after_batch_transfer(Batch& batch) const override { dataset_->on_after_batch_transfer(batch); }

 private:
  DatasetPtr dataset_;
  std::vector<std::int64_t> indices_;
};

}  // namespace

DatasetPtr map(DatasetPtr dataset, std::function<Batch(Batch sample, SampleRandom& random)> change) {
  const std::int64_t size = dataset->size();
  const auto changed = [dataset, change = std::move(change)](std::int64_t index, SampleContext context) {
    SampleRandom random(context.seed, context.epoch, index, context.layer);
    context.layer += 1;
    Batch sample = sample_of(*dataset, index, context);
    // It may be a view of the dataset, which a change in place must not reach.
    for (at::Tensor& tensor : sample.tensors) tensor = tensor.clone();
    sample.change_object_tensors([](at::Tensor& tensor) {
      if (tensor.defined()) tensor = tensor.clone();
    });
    return change(std::move(sample), random);
  };
  return std::make_shared<SampleView>(std::move(dataset), size, changed);
}

DatasetPtr concat(std::vector<DatasetPtr> datasets) {
  if (datasets.empty()) throw DataError("concat needs a dataset");
  if (datasets.size() == 1) return std::move(datasets[0]);
  std::vector<std::int64_t> ends;  // entry i: samples in the datasets 0 to i
  for (const DatasetPtr& dataset : datasets)
    ends.push_back((ends.empty() ? 0 : ends.back()) + dataset->size());
  const auto sample = [datasets, ends](std::int64_t index, const SampleContext& context) {
    const auto end = std::ranges::upper_bound(ends, index);
    const auto part = static_cast<std::size_t>(end - ends.begin());
    return sample_of(*datasets[part], index - (part == 0 ? 0 : ends[part - 1]), context);
  };
  return std::make_shared<SampleView>(datasets[0], ends.back(), sample);
}

DatasetPtr subset(DatasetPtr dataset, std::vector<std::int64_t> indices) {
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

DatasetPtr repeat(DatasetPtr dataset, std::int64_t times) {
  if (times < 1) throw DataError("a dataset cannot be repeated " + std::to_string(times) + " times");
  const std::int64_t once = dataset->size();
  const auto sample = [dataset, times, once](std::int64_t index, SampleContext context) {
    context.epoch = context.epoch * times + index / once;
    return sample_of(*dataset, index % once, context);
  };
  return std::make_shared<SampleView>(std::move(dataset), once * times, sample);
}

std::vector<DatasetPtr> random_split(const DatasetPtr& dataset, const std::vector<double>& shares,
                                     std::uint64_t seed) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const bool negative = std::ranges::any_of(shares, [](double share) { return !(share >= 0); });
  if (shares.empty() || negative || std::abs(sum - 1) > 1e-6) {
    throw DataError("the shares of random_split have to be positive and to sum to 1, found a sum of " +
                    std::to_string(sum));
  }
  const std::int64_t samples = dataset->size();
  std::vector<std::int64_t> sizes;
  std::int64_t rest = samples;
  for (const double share : shares) {
    const auto size = static_cast<std::int64_t>(std::floor(share * static_cast<double>(samples) + 1e-9));
    sizes.push_back(std::min(size, rest));  // shares may sum to a little more than 1
    rest -= sizes.back();
  }
  for (std::size_t part = 0; rest > 0; part = (part + 1) % sizes.size(), --rest) ++sizes[part];

  const auto order = ShuffleSampler().order(samples, seed, /*epoch=*/0);
  std::vector<DatasetPtr> parts;
  std::int64_t position = 0;
  for (const std::int64_t size : sizes) {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < size; ++i) indices.push_back(order->at(position++));
    parts.push_back(subset(dataset, std::move(indices)));
  }
  return parts;
}

}  // namespace cxtrain
