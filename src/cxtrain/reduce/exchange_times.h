#pragma once

#include <cstdint>

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
    field("seconds", seconds);
    field("bytes", bytes);
    field("messages", messages);
    field("last_message", last_message);
    field("waits_for_backward", waits_for_backward);
    field("seconds_in_few", seconds_in_few);
    field("last_of_few", last_of_few);
  }
};

}  // namespace cxtrain
