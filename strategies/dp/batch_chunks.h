#pragma once

#include <cstddef>
#include <vector>

#include "cxtrain/data/batch.h"

namespace cxtrain {

/// Whether this tensor of the batch has a row for each sample, and so can be split.
bool has_samples(const at::Tensor& tensor, const Batch& batch);

/// Cuts a batch along dimension 0 into at most `parts` chunks of ceil(size / parts) samples, the last one
/// smaller (torch.chunk): 10 samples in 4 parts are 3, 3, 3, 1; 5 samples are 2, 2, 1, three chunks. Chunks
/// are views. A tensor without a row for each sample is in every chunk as a whole. Objects are divided by
/// their `narrow`, which may throw. An empty batch has no chunks.
std::vector<Batch> chunk_batch(const Batch& batch, std::size_t parts);

}  // namespace cxtrain
