#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

/// Norms of tensors that may be divided over ranks: on the CPU they have the same bits for any division. No
/// function waits for the device. All norms are float32, or float64 for tensors of float64 on the CPU:
/// half-precision norms overflow when squared.
namespace cxtrain {

/// Elements of a chunk: a part of a contiguous tensor with a norm of its own. Ranks hold whole chunks, except
/// for the last chunk of a tensor.
inline constexpr std::int64_t kNormChunk = 256;

/// Returns the norms of this order of the chunks of a flat piece that begins with a chunk: [ceil(numel /
/// kNormChunk)].
at::Tensor chunk_norms(const at::Tensor& flat, double order);

/// Returns the norm of each tensor; undefined for undefined tensors. On the CPU it is the norm of the norms
/// of the tensor's chunks, in memory order. On a GPU one kernel handles all tensors, because launches would
/// cost more than reading them.
std::vector<at::Tensor> norms(std::span<const at::Tensor> tensors, double order);

/// Returns the norm of all tensors as one vector, from the norm of each tensor (undefined norms are left
/// out), on the first norm's device; a zero on the CPU if there is none.
at::Tensor total_norm(const std::vector<at::Tensor>& norms, double order);

}  // namespace cxtrain
