#pragma once

#include <cstddef>

/// Pages of 2 MiB in place of 4 KiB: the processor translates fewer addresses. A step of `zero` is 2 %
/// shorter with them (benchmarks/RESULTS.md, zero).
namespace cxtrain {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Reserves `bytes` of addresses, without memory behind them. The first is a multiple of `kHugePage`. The
/// caller maps memory over them and ends with `munmap`. Null if the kernel refuses.
std::byte* reserve_addresses(std::size_t bytes) noexcept;

/// Puts huge pages behind shared memory, which is mapped from a multiple of `kHugePage` on and keeps its
/// values: those that lie wholly in [data, data + bytes). The kernel does so whatever its setting for shared
/// memory is, from Linux 6.1 on (madvise(2), MADV_COLLAPSE); where the kernel refuses, the small pages stay.
/// A page of which nothing has been touched is touched.
void use_huge_pages(std::byte* data, std::size_t bytes) noexcept;

}  // namespace cxtrain
