#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cxtrain/data/dataset.h"

namespace cxtrain {

/// Text as a sequence of bytes, for predicting the next byte. Sample i is the `context` bytes from offset i *
/// stride and, as targets, these bytes shifted by one. A batch is two int64 tensors [B, context] of values 0
/// to 255.
class TextDataset final : public Dataset {
 public:
  /// Uses bytes [begin, end) of `text`. Throws DataError if they do not hold one sample.
  TextDataset(std::shared_ptr<const std::string> text, std::size_t begin, std::size_t end,
              std::int64_t context, std::int64_t stride);

  std::int64_t size() const override { return size_; }
  void collate(std::span<const std::int64_t> indices, const SampleContext& context,
               Batch& batch) const override;

 private:
  std::shared_ptr<const std::string> text_;
  std::size_t begin_;
  std::int64_t context_;
  std::int64_t stride_;
  std::int64_t size_;
};

struct TextSplit {
  std::shared_ptr<const TextDataset> train, val;
};

/// Reads the first nine tenths of a file for training, the rest for validation; neither reaches into the
/// other. Samples of the validation part do not overlap. Throws DataError for a file that is missing or too
/// short.
TextSplit read_text(const std::string& path, std::int64_t context, std::int64_t stride);

}  // namespace cxtrain
