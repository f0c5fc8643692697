#pragma once

#include <span>
#include <string>

/// Keeping freed memory. glibc gives large freed blocks back to the kernel, and a training step frees and
/// asks for the same blocks over and over: the page faults of that are up to a third of a step of a
/// convolutional network.
namespace cxtrain {

/// Why the allocator is not ours to tune, or empty when it is: the environment (`NAME=value` entries) has a
/// wish of its own (MALLOC_*, GLIBC_TUNABLES), or `malloc` comes from `malloc_library`, which is not glibc.
/// Pure.
std::string reason_not_to_tune_malloc(std::span<const std::string> environment,
                                      const std::string& malloc_library);

/// Tells glibc's malloc to keep what is freed: no mmap for large blocks, no trimming, growth by 64 MiB. Does
/// nothing where there is a reason not to. Returns whether it did. Called once at start, before other threads
/// exist.
bool tune_malloc();

}  // namespace cxtrain
