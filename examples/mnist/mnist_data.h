#pragma once

#include "cxtrain/data/idx_dataset.h"
#include "cxtrain/trainer/data_module.h"

/// MNIST, or another set of images in its format, from the folder `--data.path`: files named as MNIST names
/// them, gzipped or not. With the training pair and the t10k pair, t10k is for validation; with only one
/// pair, its first nine tenths are for training.
class MnistData final : public cxtrain::DataModule {
 public:
  void setup(cxtrain::Stage, const cxtrain::DataOptions& options) override;

  cxtrain::Loaders train_dataloader() override { return {train_, kBatchSize, /*shuffle=*/true}; }
  cxtrain::Loaders val_dataloader() override { return {val_, kBatchSize}; }
  cxtrain::Loaders test_dataloader() override { return {val_, kBatchSize}; }
  cxtrain::Loaders predict_dataloader() override { return {val_, kBatchSize}; }

 private:
  static constexpr std::int64_t kBatchSize = 64;
  std::shared_ptr<const cxtrain::IdxDataset> train_, val_;
};
