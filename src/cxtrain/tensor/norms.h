#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

/// Norms of tensors, of which ranks may hold parts: on the CPU they have the same bits however a tensor is
/// divided. None waits for the device. All are float32, or float64 for tensors of float64 on the CPU:
/// half-precision norms overflow when squared.
namespace cxtrain {

/// Elements of a contiguous tensor whose norm is computed as one: ranks hold whole chunks, except for the
/// last one of a tensor.
inline constexpr std::int64_t kNormChunk = 256;

/// The norms of this order of the chunks of a flat piece that begins with one: [ceil(numel / kNormChunk)].
at::Tensor chunk_norms(const at::Tensor& flat, double order);

/// The norm of each tensor; undefined for undefined ones. On the CPU that of the norms of its chunks, in the
/// order of its elements in memory; on a GPU one kernel sees to all tensors, since launches would cost more
/// than reading them.
std::vector<at::Tensor> norms(std::span<const at::Tensor> tensors, double order);

/// The norm of all of them as one vector, on the first one's device, from those of each (undefined ones are
/// left out); a zero on the CPU where there is none.
at::Tensor total_norm(const std::vector<at::Tensor>& norms, double order);

}  // namespace cxtrain
