#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <span>

namespace cxtrain {

/// Reduction of the ranks' values to one value.
enum class ReduceOp { sum, avg, min, max };

/// Computes dst[d][i] = (op over s of src[s][i]) / divisor, for i in [0, count). Sources and destinations may
/// be the same memory.
///
/// The sources are combined in pairs, as a balanced tree: S(n) = S(first h) + S(last n - h), h the largest
/// power of two below n. So every rank that computes a sum gets the same bits, and the sum over nodes of the
/// sums of their ranks has the bits of one sum over all ranks, if each node has the same power of two of
/// neighbouring ranks and the dtype is not of 16 bits.
///
/// 16-bit floats accumulate in float32 and are rounded once. Floats are multiplied by the rounded 1/divisor;
/// integers round towards zero. Throws CommunicationError for a dtype without a kernel.
void reduce_elements(c10::ScalarType dtype, ReduceOp op, std::span<const std::byte* const> src,
                     std::span<std::byte* const> dst, std::size_t count, int divisor);

/// Rounds `count` elements of a dtype (float32 or float64) to bfloat16: to nearest, ties to even; and back,
/// which is exact. Throws CommunicationError for other dtypes.
void round_to_bfloat16(c10::ScalarType dtype, const std::byte* src, std::byte* dst, std::size_t count);
void widen_bfloat16(c10::ScalarType dtype, const std::byte* src, std::byte* dst, std::size_t count);

/// Float16 with a power of two for each block of values: 11 bits of precision, as float16, and the range of
/// float32, with 2 % more bytes than float16. Values below 2^-29 of the largest of their block lose
/// precision. Infinities and NaNs stay what they are.
struct ScaledHalf {
  static constexpr std::size_t kValues = 63, kBytes = 128;  ///< of a block
  static std::size_t blocks(std::size_t values) { return (values + kValues - 1) / kValues; }
};
/// Rounds `count` elements of a dtype (float32 or float64) to blocks, and back, as `round_to_bfloat16` and
/// `widen_bfloat16` do with elements.
void round_to_scaled(c10::ScalarType dtype, const std::byte* src, std::byte* dst, std::size_t count);
void widen_scaled(c10::ScalarType dtype, const std::byte* src, std::byte* dst, std::size_t count);
/// `reduce_elements` of whole blocks, with one destination.
void reduce_scaled(ReduceOp op, std::span<const std::byte* const> src, std::byte* dst, std::size_t blocks,
                   int divisor);

/// Returns whether `reduce_elements` supports the dtype.
bool has_reduce_kernel(c10::ScalarType dtype);

}  // namespace cxtrain
