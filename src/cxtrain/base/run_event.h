#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/field_types.h"

namespace cxtrain {

/// Something that happened in a run, for programs: a line of the run's events file. People read the log.
struct RunEvent {
  enum class Kind { warning, error, checkpoint, resumed, straggler, lr_found, devices };

  double time = 0;  ///< in seconds since 1970; `log_event` sets it
  Kind event = Kind::warning;
  int rank = 0;  ///< the rank that wrote the event; `log_event` sets it
  std::optional<std::int64_t> step = {};
  std::optional<double> lr = {};       ///< of `lr_found`
  std::optional<double> seconds = {};  ///< of `checkpoint`: the seconds that rank 0 worked on the checkpoint
  /// Of `checkpoint`: the seconds that training stood still, a part of `seconds`.
  std::optional<double> stalled = {};
  /// `warning`, `error`, `straggler`: the message. `checkpoint`: the path of the checkpoint. `resumed`: the
  /// epoch and step at which the run resumed. `devices`: the ranks and their devices.
  std::string text = {};

  void fields(auto&& field) {
    field("time", time);
    field("event", event);
    field("rank", rank, in_json::AtLeast{0});
    field("step", step, in_json::AtLeast{0});
    CXTRAIN_EACH(field, lr, seconds, stalled, text);
  }
};

template <>
struct ChoiceOf<RunEvent::Kind> {
  static constexpr std::array<std::string_view, 7> words{"warning",   "error",    "checkpoint", "resumed",
                                                         "straggler", "lr_found", "devices"};
};

/// Returns the name of a rank's events file in the run's folder: events.jsonl for rank 0, events_rank_K.jsonl
/// for rank K.
inline std::string events_file(int rank) {
  return rank == 0 ? "events.jsonl" : "events_rank_" + std::to_string(rank) + ".jsonl";
}

/// Writes an event to this rank's events file, if `Log::open_file` has been called. Warnings and errors of
/// the log are events without this call.
void log_event(const RunEvent& event);
/// Logs a warning that is an event of another kind.
void log_warning(const std::string& message, RunEvent event);

}  // namespace cxtrain
