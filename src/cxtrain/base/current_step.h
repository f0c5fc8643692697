#pragma once

#include <cstdint>

namespace cxtrain {

/// The training step that this process is in, for whoever reports what goes wrong, a signal's handler among
/// them.
class CurrentStep {
 public:
  /// `step`: optimizer steps done; -1: no training goes on.
  static void set(std::int64_t step) noexcept;
  static std::int64_t get() noexcept;
};

}  // namespace cxtrain
