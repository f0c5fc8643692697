#pragma once

#include <cstdint>

namespace cxtrain {

/// The most bytes of main memory that this process has held at once since it started (resident set,
/// high-water mark).
std::int64_t peak_resident_bytes();

/// Private memory that this process may write to, used or not: what RLIMIT_DATA limits.
std::int64_t data_bytes();

/// Main memory of this machine.
std::int64_t total_memory_bytes();

/// Main memory that can still be had on this machine without swapping, as the kernel estimates it.
std::int64_t available_memory_bytes();

}  // namespace cxtrain
