#include "cxtrain/data/dataset_views.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

/// A dataset that makes each sample by itself, of another dataset.
class SampleView : public Dataset {
 public:
  void collate(std::span<const std::int64_t> indices, const SampleContext& context,
               Batch& batch) const final {
    SampleContext below = context;
    below.pin_memory = false;  // the batch is pinned, its samples are not
    std::vector<Batch> samples;
    samples.reserve(indices.size());
    for (const std::int64_t index : indices) samples.push_back(sample(index, below));
    stack_samples(samples, indices, context, batch);
  }

 private:
  virtual Batch sample(std::int64_t index, SampleContext context) const = 0;
};

class Mapped final : public SampleView {
 public:
  Mapped(DatasetPtr dataset, std::function<Batch(Batch, SampleRandom&)> change)
      : dataset_(std::move(dataset)), change_(std::move(change)) {}

  std::int64_t size() const override { return dataset_->size(); }
  void on_after_batch_transfer(Batch& batch) const override { dataset_->on_after_batch_transfer(batch); }

 private:
  Batch sample(std::int64_t index, SampleContext context) const override {
    SampleRandom random(context.seed, context.epoch, index, context.layer);
    context.layer += 1;
    Batch sample = sample_of(*dataset_, index, context);
    // It may be a view of the dataset, which a change in place must not reach.
    for (at::Tensor& tensor : sample.tensors) tensor = tensor.clone();
    sample.change_object_tensors([](at::Tensor& tensor) {
      if (tensor.defined()) tensor = tensor.clone();
    });
    return change_(std::move(sample), random);
  }

  DatasetPtr dataset_;
  std::function<Batch(Batch, SampleRandom&)> change_;
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
    std::vector<std::int64_t> below;
    below.reserve(indices.size());
    for (const std::int64_t index : indices) below.push_back(indices_[static_cast<std::size_t>(index)]);
    dataset_->collate(below, context, batch);
  }
  void on_after_batch_transfer(Batch& batch) const override { dataset_->on_after_batch_transfer(batch); }

 private:
  DatasetPtr dataset_;
  std::vector<std::int64_t> indices_;
};

class Concatenated final : public SampleView {
 public:
  explicit Concatenated(std::vector<DatasetPtr> datasets) : datasets_(std::move(datasets)) {
    if (datasets_.empty()) throw DataError("concat needs a dataset");
    for (const DatasetPtr& dataset : datasets_) ends_.push_back(size() + dataset->size());
  }

  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  void on_after_batch_transfer(Batch& batch) const override { datasets_[0]->on_after_batch_transfer(batch); }

 private:
  Batch sample(std::int64_t index, SampleContext context) const override {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
    const auto part = static_cast<std::size_t>(end - ends_.begin());
    return sample_of(*datasets_[part], index - (part == 0 ? 0 : ends_[part - 1]), context);
  }

  std::vector<DatasetPtr> datasets_;
  std::vector<std::int64_t> ends_;  ///< of each dataset, in the samples of all
};

class Repeated final : public SampleView {
 public:
  Repeated(DatasetPtr dataset, std::int64_t times) : dataset_(std::move(dataset)), times_(times) {
    if (times < 1) throw DataError("a dataset cannot be repeated " + std::to_string(times) + " times");
  }

  std::int64_t size() const override { return dataset_->size() * times_; }
  void on_after_batch_transfer(Batch& batch) const override { dataset_->on_after_batch_transfer(batch); }

 private:
  Batch sample(std::int64_t index, SampleContext context) const override {
    context.epoch = context.epoch * times_ + index / dataset_->size();
    return sample_of(*dataset_, index % dataset_->size(), context);
  }

  DatasetPtr dataset_;
  std::int64_t times_;
};

}  // namespace

DatasetPtr map(DatasetPtr dataset, std::function<Batch(Batch sample, SampleRandom& random)> change) {
  return std::make_shared<Mapped>(std::move(dataset), std::move(change));
}

DatasetPtr concat(std::vector<DatasetPtr> datasets) {
  if (datasets.size() == 1) return std::move(datasets[0]);
  return std::make_shared<Concatenated>(std::move(datasets));
}

DatasetPtr subset(DatasetPtr dataset, std::vector<std::int64_t> indices) {
  return std::make_shared<Subset>(std::move(dataset), std::move(indices));
}

DatasetPtr repeat(DatasetPtr dataset, std::int64_t times) {
  return std::make_shared<Repeated>(std::move(dataset), times);
}

std::vector<DatasetPtr> random_split(const DatasetPtr& dataset, const std::vector<double>& shares,
                                     std::uint64_t seed) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const bool negative = std::any_of(shares.begin(), shares.end(), [](double share) { return !(share >= 0); });
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
