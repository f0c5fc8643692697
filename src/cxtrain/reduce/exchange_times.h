#pragma once

#include <cstdint>

#include "cxtrain/base/each_field.h"

namespace cxtrain {

/// The exchange of a step's gradients alone, measured after the last step. Each time is the time of
/// the fastest of three exchanges, in seconds. A time of 0 was not measured.
struct ExchangeTimes {
  double seconds = 0;
  std::int64_t bytes = 0;  ///< of a rank's gradients, as they travel between nodes
  std::int64_t messages = 0;
  double last_message = 0;          ///< the share of `bytes` in the last message
  bool waits_for_backward = false;  ///< `Rehearsal::waits_for_backward` (reduce/rehearsal.h)
  // In few messages of a size that suits the communicator (`RehearsedMessages::few`).
  double seconds_in_few = 0;
  double last_of_few = 0;  ///< the share of `bytes` in the last of them

  void fields(auto&& field) {
    CXTRAIN_EACH(field, seconds, bytes, messages, last_message, waits_for_backward, seconds_in_few,
                 last_of_few);
  }
};

}  // namespace cxtrain
