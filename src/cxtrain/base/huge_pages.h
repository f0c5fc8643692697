#pragma once

#include <cstddef>

/// Pages of 2 MiB in place of 4 KiB: the processor translates fewer addresses. A step of `zero` is 2 %
/// shorter with them (benchmarks/RESULTS.md, zero).
namespace cxtrain {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Bytes of the system's small pages.
std::size_t page_bytes() noexcept;

/// Reserves `bytes` of addresses, without memory behind them. The first is a multiple of `kHugePage`. The
/// caller maps memory over them and ends with `munmap`. Null if the kernel refuses.
std::byte* reserve_addresses(std::size_t bytes) noexcept;

/// Puts huge pages behind the shared memory in [data, data + bytes), except where a huge page would reach
/// beyond the memory's ends. The memory is mapped from a multiple of `kHugePage` on, and keeps its values.
/// Memory that nobody has touched yet is taken now. Linux 6.1 and later put huge pages there whatever the
/// system's setting for shared memory is (madvise(2), MADV_COLLAPSE). If the kernel refuses, small pages
/// stay.
void use_huge_pages(std::byte* data, std::size_t bytes) noexcept;

}  // namespace cxtrain
