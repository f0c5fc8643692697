#pragma once

#include <ATen/core/Tensor.h>

/// Moments of pairs (a, b) of numbers, float64 [..., 6]: count, mean a, mean b, C_aa, C_bb, C_ab, where C are
/// sums of products of deviations from the means.
namespace cxtrain {

/// The moments of `a`, `b` [N, outputs], float64: [outputs, 6].
at::Tensor moments_of(const at::Tensor& a, const at::Tensor& b);

/// The moments of two samples together, by Chan's formula (Chan, Golub, LeVeque 1979, STAN-CS-79-773): a mean
/// that is large against the deviations costs no digits.
at::Tensor join_moments(const at::Tensor& one, const at::Tensor& two);

}  // namespace cxtrain
