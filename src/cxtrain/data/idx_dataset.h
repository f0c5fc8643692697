#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cxtrain/data/dataset.h"

namespace cxtrain {

/// Labelled grey images in the format of MNIST and its relatives. Kept, and moved to devices, as bytes.
class IdxDataset final : public Dataset {
 public:
  /// `images`: uint8 [N, rows, columns]. `labels`: int64 [N].
  IdxDataset(at::Tensor images, at::Tensor labels);

  std::int64_t size() const override { return images_.size(0); }
  /// Makes uint8 [B, 1, rows, columns] and int64 [B].
  void collate(std::span<const std::int64_t> indices, const SampleContext& context,
               Batch& batch) const override;
  /// Converts the images to float32 in [0, 1].
  void on_after_batch_transfer(Batch& batch) const override;

  const at::Tensor& images() const { return images_; }
  const at::Tensor& labels() const { return labels_; }

  /// Returns samples [begin, end), which share the memory.
  std::shared_ptr<const IdxDataset> slice(std::int64_t begin, std::int64_t end) const;

 private:
  at::Tensor images_;
  at::Tensor labels_;
};

/// Reads a pair of IDX files (yann.lecun.com/exdb/mnist: big-endian header, then bytes), gzipped or not.
/// Throws DataError, with the file, for a file that is missing, truncated, too long, of another kind or
/// without images. Also throws for pairs with different counts, and for a label that is not below
/// `num_classes`.
std::shared_ptr<const IdxDataset> read_idx(const std::string& images_path, const std::string& labels_path,
                                           std::int64_t num_classes = 10);

}  // namespace cxtrain
