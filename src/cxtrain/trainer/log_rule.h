#pragma once

namespace cxtrain {

/// What `log` does in one hook.
struct LogRule {
  enum class Phase { none, training, evaluation };
  enum class Allowed {
    both,     ///< on_step and on_epoch
    epoch,    ///< on_epoch only: the hook does not belong to a step
    nothing,  ///< an error: no row comes that the value could go to
    ignored,  ///< a warning, once: the same, but training is over, and an error would lose its result
  };
  const char* hook = "";
  Phase phase = Phase::none;
  Allowed allowed = Allowed::nothing;
  bool on_step = false;  ///< where the caller does not say; on_epoch is the opposite
};

}  // namespace cxtrain
