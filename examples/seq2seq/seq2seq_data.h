#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/data/dataset.h"
#include "cxtrain/trainer/data_module.h"

/// The ends of a text's lines, and the same written backwards. Sample i is the last `length` bytes of a line;
/// a batch is two int64 tensors [B, length] of values 0 to 255: as they are, and reversed.
class ReversedLines final : public cxtrain::Dataset {
 public:
  explicit ReversedLines(std::vector<std::string> lines) : lines_(std::move(lines)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(lines_.size()); }
  void collate(std::span<const std::int64_t> indices, const cxtrain::SampleContext& context,
               cxtrain::Batch& batch) const override;

 private:
  std::vector<std::string> lines_;  ///< of equal length
};

/// Lines of a text file, `--data.path`; every tenth for validation. Lines that are too short are left out.
/// Without a path, the Bible in English, a verse a line.
class ReversedLinesData final : public cxtrain::DataModule {
 public:
  explicit ReversedLinesData(std::int64_t length) : length_(length) {}

  /// Throws DataError for a text without enough lines that are long enough.
  void setup(cxtrain::Stage, const cxtrain::DataOptions& options) override;

  cxtrain::Loaders train_dataloader() override { return {train_, kBatchSize, /*shuffle=*/true}; }
  cxtrain::Loaders val_dataloader() override { return {val_, kBatchSize}; }
  cxtrain::Loaders test_dataloader() override { return {val_, kBatchSize}; }
  cxtrain::Loaders predict_dataloader() override { return {val_, kBatchSize}; }

 private:
  std::int64_t length_;
  static constexpr std::int64_t kBatchSize = 32;
  std::shared_ptr<const ReversedLines> train_, val_;
};
