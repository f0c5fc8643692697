#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <cxtrain/data/dataset.h>
#include <cxtrain/trainer/data_module.h>

/// Images of 3 x 8 x 8: noise, with a bright blob in the corner that is the class. Augmented by flips that
/// depend on seed, epoch and sample, so that a run can be repeated with any number of ranks and workers.
class Blobs : public cxtrain::Dataset {
 public:
  Blobs(std::int64_t size, bool augment) : size_(size), augment_(augment) {}
  std::int64_t size() const override { return size_; }

  void collate(std::span<const std::int64_t> indices, const cxtrain::SampleContext& context,
               cxtrain::Batch& batch) const override {
    std::vector<at::Tensor> images;
    at::Tensor labels = at::empty({static_cast<std::int64_t>(indices.size())}, at::kLong);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::int64_t label = indices[i] % 2;
      images.push_back(image(indices[i], label, context));
      labels[static_cast<std::int64_t>(i)] = label;
    }
    batch.tensors = {at::stack(images), labels};
    batch.size = static_cast<std::int64_t>(indices.size());
  }

 private:
  at::Tensor image(std::int64_t index, std::int64_t label, const cxtrain::SampleContext& context) const {
    auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(index));
    at::Tensor pixels = at::randn({3, 8, 8}, generator);
    pixels.narrow(1, 4 * label, 3).add_(2.0);
    const std::uint64_t toss = (context.seed * 31 + static_cast<std::uint64_t>(context.epoch)) * 31 +
                               static_cast<std::uint64_t>(index);
    return augment_ && toss % 2 == 1 ? at::flip(pixels, {2}) : pixels;
  }

  std::int64_t size_;
  bool augment_;
};

class BlobData : public cxtrain::DataModule {
 public:
  void setup(const cxtrain::DataOptions&) override {}
  cxtrain::DataLoaderSpec train_dataloader() override {
    return {std::make_shared<Blobs>(128, true), 16, /*shuffle=*/true};
  }
  cxtrain::DataLoaderSpec val_dataloader() override { return {std::make_shared<Blobs>(40, false), 16}; }
  cxtrain::DataLoaderSpec test_dataloader() override { return {std::make_shared<Blobs>(24, false), 16}; }
  cxtrain::DataLoaderSpec predict_dataloader() override { return {std::make_shared<Blobs>(21, false), 8}; }
};
