#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <cxtrain/data/dataset.h>
#include <cxtrain/trainer/data_module.h>

/// Images of 3 x 8 x 8: noise, with a bright blob in the corner that is the class. Augmented by flips that
/// depend on seed, epoch and sample, so that a run can be repeated with any number of ranks and workers.
class Blobs : public cxtrain::Dataset {
 public:
  Blobs(std::int64_t size, bool augment) : size_(size), augment_(augment) {}
  std::int64_t size() const override { return size_; }

  cxtrain::Batch get(std::int64_t index, cxtrain::SampleRandom& random) const override {
    const std::int64_t label = index % 2;
    auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(index));
    at::Tensor image = at::randn({3, 8, 8}, generator);
    image.narrow(1, 4 * label, 3).add_(2.0);
    if (augment_ && random.flip()) image = at::flip(image, {2});
    return {{image, at::scalar_tensor(label, at::kLong)}};
  }

 private:
  std::int64_t size_;
  bool augment_;
};

class BlobData : public cxtrain::DataModule {
 public:
  void setup(cxtrain::Stage, const cxtrain::DataOptions&) override {}
  cxtrain::Loaders train_dataloader() override {
    return {std::make_shared<Blobs>(128, true), 16, /*shuffle=*/true};
  }
  cxtrain::Loaders val_dataloader() override { return {std::make_shared<Blobs>(40, false), 16}; }
  cxtrain::Loaders test_dataloader() override { return {std::make_shared<Blobs>(24, false), 16}; }
  cxtrain::Loaders predict_dataloader() override { return {std::make_shared<Blobs>(21, false), 8}; }
};
