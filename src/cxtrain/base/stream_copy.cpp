#include "cxtrain/base/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cxtrain/base/align.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace cxtrain {
namespace {

/// 0.9 of the time without, and less than with 4 KiB (150 tensors of 4 MB, an EPYC, 2026-11-23).
[[maybe_unused]] constexpr std::size_t kAhead = 1024;

}  // namespace

void stream_copy(char* to, const char* from, std::size_t bytes) {
#if defined(__x86_64__)
  const std::size_t past_line = reinterpret_cast<std::uintptr_t>(to) % kCacheLine;
  const std::size_t head = std::min(bytes, (kCacheLine - past_line) % kCacheLine);
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; bytes - done >= kCacheLine; done += kCacheLine) {
    // The processor's own prefetching ends at each page of 4 KiB. Not beyond what is copied: others may write
    // there.
    if (bytes - done > kAhead) _mm_prefetch(from + done + kAhead, _MM_HINT_NTA);
    const auto* source = reinterpret_cast<const __m128i*>(from + done);
    auto* target = reinterpret_cast<__m128i*>(to + done);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();  // for the thread that reads it next
  std::memcpy(to + done, from + done, bytes - done);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace cxtrain
