#include "cxtrain/comm/reduce_kernels.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "cxtrain/base/error.h"

// One version per instruction set, chosen when the library is loaded. Sanitizers instrument the resolvers,
// which run before their run-time library does, so there they are left out.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CXTRAIN_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CXTRAIN_CLONES
#endif

namespace cxtrain {
namespace {

#if defined(__clang__)  // clang 14 has no _Float16 on x86-64
using Float16 = c10::Half;
#else
using Float16 = _Float16;
#endif

/// Elements combined at a time: the accumulator stays in the first-level cache.
constexpr std::size_t kBlock = 2048;

// The vectorised inner loops. target_clones does not apply to templates, hence the macros.
// NOLINTBEGIN(bugprone-macro-parentheses): types cannot be in parentheses
#define CXTRAIN_LOOPS(suffix, type)                                                             \
  CXTRAIN_CLONES void add_##suffix(type* acc, const type* x, std::size_t n) {                   \
    for (std::size_t i = 0; i < n; ++i) acc[i] = static_cast<type>(acc[i] + x[i]);              \
  }                                                                                             \
  CXTRAIN_CLONES void min_##suffix(type* acc, const type* x, std::size_t n) {                   \
    for (std::size_t i = 0; i < n; ++i) acc[i] = x[i] < acc[i] || x[i] != x[i] ? x[i] : acc[i]; \
  }                                                                                             \
  CXTRAIN_CLONES void max_##suffix(type* acc, const type* x, std::size_t n) {                   \
    for (std::size_t i = 0; i < n; ++i) acc[i] = x[i] > acc[i] || x[i] != x[i] ? x[i] : acc[i]; \
  }                                                                                             \
  struct Loops_##suffix {                                                                       \
    static void add(type* acc, const type* x, std::size_t n) { add_##suffix(acc, x, n); }       \
    static void min(type* acc, const type* x, std::size_t n) { min_##suffix(acc, x, n); }       \
    static void max(type* acc, const type* x, std::size_t n) { max_##suffix(acc, x, n); }       \
  };

CXTRAIN_LOOPS(f32, float)
CXTRAIN_LOOPS(f64, double)
CXTRAIN_LOOPS(i32, std::int32_t)
CXTRAIN_LOOPS(i64, std::int64_t)
CXTRAIN_LOOPS(u8, std::uint8_t)
#undef CXTRAIN_LOOPS
// NOLINTEND(bugprone-macro-parentheses)

CXTRAIN_CLONES void scale_f32(float* x, float factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}
CXTRAIN_CLONES void scale_f64(double* x, double factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) x[i] *= factor;
}

// The commonest cases in one pass over memory: two ranks, float32; the sum goes to both, or to one.
CXTRAIN_CLONES void sum_pair_f32(const float* a, const float* b, float* out_a, float* out_b, float factor,
                                 std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float value = (a[i] + b[i]) * factor;
    out_a[i] = value;
    out_b[i] = value;
  }
}

CXTRAIN_CLONES void sum_two_f32(const float* a, const float* b, float* out, float factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = (a[i] + b[i]) * factor;
}

CXTRAIN_CLONES void widen_bf16(float* out, const std::uint16_t* in, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(in[i]) << 16);
}

/// Round to nearest, ties to even; a NaN stays one.
CXTRAIN_CLONES void narrow_bf16(std::uint16_t* out, const float* in, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(in[i]);
    const auto rounded = static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
    out[i] = (bits & 0x7FFFFFFFu) > 0x7F800000u ? std::uint16_t{0x7FC0} : rounded;
  }
}

CXTRAIN_CLONES void widen_f16(float* out, const Float16* in, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
}
CXTRAIN_CLONES void narrow_f16(Float16* out, const float* in, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<Float16>(in[i]);
}

/// For exponents of normal floats.
inline float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
}

/// The power of two of a block: after division by it the block's largest finite value lies in [2^14, 2^15),
/// which rounds to a float16. At least -126, so that the power has a reciprocal.
inline int exponent_of(const float* in, std::size_t n) {
  constexpr std::uint32_t kInfinity = 0x7F800000u;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t size = std::bit_cast<std::uint32_t>(in[i]) & 0x7FFFFFFFu;
    largest = std::max(largest, size < kInfinity ? size : 0u);
  }
  return largest == 0 ? 0 : std::max(static_cast<int>(largest >> 23) - 127 - 14, -126);
}

/// A block: its values, then its exponent.
CXTRAIN_CLONES void pack_scaled(std::byte* out, const float* in, std::size_t count) {
  for (std::size_t first = 0; first < count; first += ScaledHalf::kValues, out += ScaledHalf::kBytes) {
    const std::size_t n = std::min(ScaledHalf::kValues, count - first);
    const int exponent = exponent_of(in + first, n);
    const float factor = power_of_two(-exponent);
    std::array<Float16, ScaledHalf::kValues> values{};
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<Float16>(in[first + i] * factor);
    const auto stored = static_cast<std::int16_t>(exponent);
    std::memcpy(out, values.data(), sizeof values);
    std::memcpy(out + sizeof values, &stored, sizeof stored);
  }
}

CXTRAIN_CLONES void unpack_scaled(float* out, const std::byte* in, std::size_t count) {
  for (std::size_t first = 0; first < count; first += ScaledHalf::kValues, in += ScaledHalf::kBytes) {
    std::array<Float16, ScaledHalf::kValues> values;
    std::int16_t exponent = 0;
    std::memcpy(values.data(), in, sizeof values);
    std::memcpy(&exponent, in + sizeof values, sizeof exponent);
    const float factor = power_of_two(exponent);
    const std::size_t n = std::min(ScaledHalf::kValues, count - first);
    for (std::size_t i = 0; i < n; ++i) out[first + i] = static_cast<float>(values[i]) * factor;
  }
}

template <class Loops, class T>
void combine(ReduceOp op, T* acc, const T* x, std::size_t n) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return Loops::add(acc, x, n);
    case ReduceOp::min:
      return Loops::min(acc, x, n);
    case ReduceOp::max:
      return Loops::max(acc, x, n);
  }
}

using Sources = std::span<const std::byte* const>;
using Destinations = std::span<std::byte* const>;

/// Combines the sources into `acc`, up to `kBlock` elements of each from element `begin` on, as a tree.
/// `load(block, source)` returns a source's elements, or puts them into `block`.
template <class Loops, class T, class Load>
void combine_tree(ReduceOp op, Sources src, T* acc, std::size_t n, const Load& load) {
  if (src.size() == 1) {
    const T* const values = load(acc, src[0]);
    if (values != acc) std::memcpy(acc, values, n * sizeof(T));
    return;
  }
  const std::size_t half = std::bit_floor(src.size() - 1);
  combine_tree<Loops>(op, src.first(half), acc, n, load);
  std::array<T, kBlock> block;
  if (src.size() - half == 1) return combine<Loops>(op, acc, load(block.data(), src[half]), n);
  combine_tree<Loops>(op, src.subspan(half), block.data(), n, load);
  combine<Loops>(op, acc, block.data(), n);
}

/// Types that accumulate in themselves.
template <class Loops, class T, class Finish>
void reduce_plain(ReduceOp op, Sources src, Destinations dst, std::size_t count, Finish finish) {
  std::array<T, kBlock> acc;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    combine_tree<Loops>(op, src, acc.data(), n, [begin](T*, const std::byte* source) {
      return reinterpret_cast<const T*>(source) + begin;
    });
    finish(acc.data(), n);
    for (std::byte* target : dst)
      std::memcpy(reinterpret_cast<T*>(target) + begin, acc.data(), n * sizeof(T));
  }
}

/// 16-bit floats, which accumulate in float32.
template <class T, class Widen, class Narrow>
void reduce_half(ReduceOp op, Sources src, Destinations dst, std::size_t count, float factor, Widen widen,
                 Narrow narrow) {
  std::array<float, kBlock> acc;
  std::array<T, kBlock> rounded;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t n = std::min(kBlock, count - begin);
    combine_tree<Loops_f32>(op, src, acc.data(), n, [&](float* block, const std::byte* source) {
      widen(block, reinterpret_cast<const T*>(source) + begin, n);
      return static_cast<const float*>(block);
    });
    if (factor != 1.0f) scale_f32(acc.data(), factor, n);
    narrow(rounded.data(), acc.data(), n);
    for (std::byte* target : dst)
      std::memcpy(reinterpret_cast<T*>(target) + begin, rounded.data(), n * sizeof(T));
  }
}

template <class Loops, class T>
void reduce_integers(ReduceOp op, Sources src, Destinations dst, std::size_t count, int divisor) {
  reduce_plain<Loops, T>(op, src, dst, count, [divisor](T* x, std::size_t n) {
    if (divisor == 1) return;
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(x[i] / divisor);
  });
}

/// Doubles become floats, and floats become doubles, in pieces of this number of blocks.
constexpr std::size_t kBlocks = kBlock / ScaledHalf::kValues, kScaledValues = kBlocks * ScaledHalf::kValues;

void require_float(c10::ScalarType dtype) {
  if (dtype == c10::ScalarType::Float || dtype == c10::ScalarType::Double) return;
  throw CommunicationError(std::string("no rounding of ") + c10::toString(dtype) + "; use float32 or float64",
                           MessageCode::bad_tensor);
}

/// Calls `work(values, first, n)` for each piece of `count` doubles: elements [first, first + n), for which
/// `values` has room as floats.
template <class Work>
void in_pieces(std::size_t count, const Work& work) {
  std::array<float, kScaledValues> values;
  for (std::size_t first = 0; first < count; first += kScaledValues)
    work(values.data(), first, std::min(kScaledValues, count - first));
}

/// Calls `narrow(first, values, n)` with elements [first, first + n) as floats.
template <class Narrow>
void round_floats(c10::ScalarType dtype, const std::byte* src, std::size_t count, const Narrow& narrow) {
  require_float(dtype);
  if (dtype == c10::ScalarType::Float) return narrow(0, reinterpret_cast<const float*>(src), count);
  in_pieces(count, [&](float* values, std::size_t first, std::size_t n) {
    const auto* const from = reinterpret_cast<const double*>(src) + first;
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(from[i]);
    narrow(first, values, n);
  });
}

/// Calls `widen(values, first, n)`, which writes elements [first, first + n) as floats.
template <class Widen>
void widen_floats(c10::ScalarType dtype, std::byte* dst, std::size_t count, const Widen& widen) {
  require_float(dtype);
  if (dtype == c10::ScalarType::Float) return widen(reinterpret_cast<float*>(dst), 0, count);
  in_pieces(count, [&](float* values, std::size_t first, std::size_t n) {
    widen(values, first, n);
    std::copy_n(values, n, reinterpret_cast<double*>(dst) + first);
  });
}

}  // namespace

void round_to_bfloat16(c10::ScalarType dtype, const std::byte* src, std::byte* dst, std::size_t count) {
  auto* const to = reinterpret_cast<std::uint16_t*>(dst);
  round_floats(dtype, src, count, [&](std::size_t first, const float* values, std::size_t n) {
    narrow_bf16(to + first, values, n);
  });
}

void widen_bfloat16(c10::ScalarType dtype, const std::byte* src, std::byte* dst, std::size_t count) {
  const auto* const from = reinterpret_cast<const std::uint16_t*>(src);
  widen_floats(dtype, dst, count,
               [&](float* values, std::size_t first, std::size_t n) { widen_bf16(values, from + first, n); });
}

void round_to_scaled(c10::ScalarType dtype, const std::byte* src, std::byte* dst, std::size_t count) {
  round_floats(dtype, src, count, [&](std::size_t first, const float* values, std::size_t n) {
    pack_scaled(dst + ScaledHalf::blocks(first) * ScaledHalf::kBytes, values, n);
  });
}

void widen_scaled(c10::ScalarType dtype, const std::byte* src, std::byte* dst, std::size_t count) {
  widen_floats(dtype, dst, count, [&](float* values, std::size_t first, std::size_t n) {
    unpack_scaled(values, src + ScaledHalf::blocks(first) * ScaledHalf::kBytes, n);
  });
}

void reduce_scaled(ReduceOp op, Sources src, std::byte* dst, std::size_t blocks, int divisor) {
  const float factor = 1.0f / static_cast<float>(divisor);
  std::array<float, kBlock> acc;
  for (std::size_t begin = 0; begin < blocks; begin += kBlocks) {
    const std::size_t n = std::min(kBlocks, blocks - begin) * ScaledHalf::kValues;
    const std::size_t offset = begin * ScaledHalf::kBytes;
    combine_tree<Loops_f32>(op, src, acc.data(), n, [&](float* block, const std::byte* source) {
      unpack_scaled(block, source + offset, n);
      return static_cast<const float*>(block);
    });
    if (factor != 1.0f) scale_f32(acc.data(), factor, n);
    pack_scaled(dst + offset, acc.data(), n);
  }
}

bool has_reduce_kernel(c10::ScalarType dtype) {
  using enum c10::ScalarType;
  return dtype == Float || dtype == Double || dtype == BFloat16 || dtype == Half || dtype == Int ||
         dtype == Long || dtype == Byte;
}

void reduce_elements(c10::ScalarType dtype, ReduceOp op, Sources src, Destinations dst, std::size_t count,
                     int divisor) {
  const float factor = 1.0f / static_cast<float>(divisor);
  switch (dtype) {
    case c10::ScalarType::Float:
      if (src.size() == 2 && dst.size() <= 2 && (op == ReduceOp::sum || op == ReduceOp::avg)) {
        const auto *a = reinterpret_cast<const float*>(src[0]), *b = reinterpret_cast<const float*>(src[1]);
        auto* const out = reinterpret_cast<float*>(dst[0]);
        if (dst.size() == 1) return sum_two_f32(a, b, out, factor, count);
        return sum_pair_f32(a, b, out, reinterpret_cast<float*>(dst[1]), factor, count);
      }
      return reduce_plain<Loops_f32, float>(op, src, dst, count, [factor](float* x, std::size_t n) {
        if (factor != 1.0f) scale_f32(x, factor, n);
      });
    case c10::ScalarType::Double:
      return reduce_plain<Loops_f64, double>(op, src, dst, count, [divisor](double* x, std::size_t n) {
        if (divisor != 1) scale_f64(x, 1.0 / divisor, n);
      });
    case c10::ScalarType::BFloat16:
      return reduce_half<std::uint16_t>(op, src, dst, count, factor, widen_bf16, narrow_bf16);
    case c10::ScalarType::Half:
      return reduce_half<Float16>(op, src, dst, count, factor, widen_f16, narrow_f16);
    case c10::ScalarType::Int:
      return reduce_integers<Loops_i32, std::int32_t>(op, src, dst, count, divisor);
    case c10::ScalarType::Long:
      return reduce_integers<Loops_i64, std::int64_t>(op, src, dst, count, divisor);
    case c10::ScalarType::Byte:
      return reduce_integers<Loops_u8, std::uint8_t>(op, src, dst, count, divisor);
    default:
      throw CommunicationError(std::string("all_reduce: no kernel for tensors of ") + c10::toString(dtype) +
                                   "; use float32, float64, bfloat16, float16, int32, int64 or uint8",
                               MessageCode::bad_tensor);
  }
}

}  // namespace cxtrain
