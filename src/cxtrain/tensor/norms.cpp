#include "cxtrain/tensor/norms.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/tensor/layout.h"

namespace cxtrain {
namespace {

at::ScalarType norm_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Where the tensor has gaps, in row-major order.
at::Tensor in_memory_order(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? flat(tensor.detach()) : tensor.reshape({-1});
}

at::Tensor norm_of(const at::Tensor& tensor, double order) {
  if (tensor.numel() == 0)
    return at::zeros({}, tensor.options().dtype(norm_type(tensor)).requires_grad(false));
  if (tensor.numel() <= kNormChunk)
    return at::linalg_vector_norm(tensor, order, std::nullopt, /*keepdim=*/false, norm_type(tensor));
  return at::linalg_vector_norm(chunk_norms(in_memory_order(tensor), order), order);
}

}  // namespace

at::Tensor chunk_norms(const at::Tensor& flat, double order) {
  const std::int64_t whole = flat.numel() / kNormChunk * kNormChunk;
  const auto norm = [&](const at::Tensor& rows) {
    return at::linalg_vector_norm(rows, order, at::OptionalIntArrayRef(1), /*keepdim=*/false,
                                  norm_type(flat));
  };
  const at::Tensor chunks = norm(flat.slice(0, 0, whole).view({-1, kNormChunk}));
  if (whole == flat.numel()) return chunks;
  return at::cat({chunks, norm(flat.slice(0, whole).unsqueeze(0))});
}

std::vector<at::Tensor> norms(std::span<const at::Tensor> tensors, double order) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> result(tensors.size());
  std::vector<at::Tensor> elsewhere;  // than on the CPU
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    if (tensors[i].is_cpu()) {
      result[i] = norm_of(tensors[i], order);
    } else {
      elsewhere.push_back(tensors[i]);
      indices.push_back(i);
    }
  }
  if (elsewhere.empty()) return result;
  const std::vector<at::Tensor> found = at::_foreach_norm(elsewhere, order, at::kFloat);
  for (std::size_t i = 0; i < indices.size(); ++i) result[indices[i]] = found[i];
  return result;
}

at::Tensor total_norm(const std::vector<at::Tensor>& norms, double order) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> defined;
  for (const at::Tensor& norm : norms) {
    if (!norm.defined()) continue;
    defined.push_back(defined.empty() ? norm : norm.to(defined[0].device(), defined[0].scalar_type()));
  }
  if (defined.empty()) return at::zeros({});
  return at::linalg_vector_norm(at::stack(defined), order);
}

}  // namespace cxtrain
