#pragma once

namespace cxtrain {

/// Flags that travel with the gradients of a step have bits 0 to `kStepFlags` - 1.
inline constexpr int kStepFlags = 16;

}  // namespace cxtrain
