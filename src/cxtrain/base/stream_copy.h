#pragma once

#include <cstddef>

namespace cxtrain {

/// memcpy for what nobody reads soon: the target does not pass through the processor's caches, so that it
/// need not be fetched before it is written, and what lies in them stays. memcpy does so only where a single
/// part is larger than the cache.
void stream_copy(char* to, const char* from, std::size_t bytes);

}  // namespace cxtrain
