#pragma once

#include "cxtrain/data/data_file.h"
#include "cxtrain/data/text_dataset.h"
#include "cxtrain/trainer/data_module.h"

/// Bytes of a text file, `--data.path`: the last tenth for validation. Without a path, the Bible in English.
class GptData final : public cxtrain::DataModule {
 public:
  explicit GptData(std::int64_t context) : context_(context) {}

  void setup(cxtrain::Stage, const cxtrain::DataOptions& options) override {
    const std::string path = options.path.empty() ? cxtrain::find_data_file("bible-kjv.txt") : options.path;
    split_ = cxtrain::read_text(path, context_, /*stride=*/context_);
  }

  cxtrain::Loaders train_dataloader() override { return {split_.train, kBatchSize, /*shuffle=*/true}; }
  cxtrain::Loaders val_dataloader() override { return {split_.val, kBatchSize}; }
  cxtrain::Loaders test_dataloader() override { return {split_.val, kBatchSize}; }
  cxtrain::Loaders predict_dataloader() override { return {split_.val, kBatchSize}; }

 private:
  static constexpr std::int64_t kBatchSize = 16;
  std::int64_t context_;
  cxtrain::TextSplit split_;
};
