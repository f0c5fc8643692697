#pragma once

#include <cstdint>

namespace cxtrain {

/// The most bytes of main memory that this process has held at once since it started (resident set,
/// high-water mark).
std::int64_t peak_resident_bytes();

/// Main memory that can still be had on this machine without swapping, as the kernel estimates it.
std::int64_t available_memory_bytes();

}  // namespace cxtrain
