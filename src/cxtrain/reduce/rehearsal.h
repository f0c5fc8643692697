#pragma once

#include <cstdint>

namespace cxtrain {

/// An exchange of a step's gradients, as `GradientExchange::rehearse` makes it.
struct Rehearsal {
  std::int64_t bytes = 0;       ///< of a rank's gradients, as they travel between nodes
  std::int64_t last_bytes = 0;  ///< of these, in the last message
  std::int64_t messages = 0;
  /// In steps, messages travel after backward, although the communicator could send them during backward.
  bool waits_for_backward = false;
};

/// The messages of a rehearsal: those of a step, or few of a size that suits the communicator
/// (`Communicator::message_bytes`).
enum class RehearsedMessages { of_steps, few };

}  // namespace cxtrain
