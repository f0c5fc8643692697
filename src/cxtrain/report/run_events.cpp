#include "cxtrain/report/run_events.h"

#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/formatted.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/report/line_reader.h"
#include "cxtrain/report/saved_rows.h"

namespace cxtrain {
namespace {

/// "2026-11-24 10:00:00.000000", in local time.
std::string time_text(double seconds_since_1970) {
  constexpr double kYear3000 = 32'503'680'000;
  if (!(seconds_since_1970 >= 0 && seconds_since_1970 < kYear3000)) seconds_since_1970 = 0;
  const std::lldiv_t time = std::lldiv(std::llround(seconds_since_1970 * 1e6), 1'000'000);
  return date_text(static_cast<double>(time.quot), "%Y-%m-%d %H:%M:%S") +
         formatted(".%06d", static_cast<int>(time.rem));
}

const char* severity_of(RunEvent::Kind kind) {
  switch (kind) {
    case RunEvent::Kind::error:
      return "error";
    case RunEvent::Kind::warning:
    case RunEvent::Kind::straggler:
      return "warning";
    case RunEvent::Kind::checkpoint:
    case RunEvent::Kind::resumed:
    case RunEvent::Kind::lr_found:
    case RunEvent::Kind::devices:
      break;
  }
  return "detail";
}

}  // namespace

RunEventsRead read_run_events(Filesystem& files, const std::string& run, int rank, std::uint64_t most_bytes,
                              const std::function<void(const RunEvent&)>& take) {
  RunEventsRead result;
  const std::string path = run + "/" + events_file(rank);
  if (!is_file_of_run(files, path)) return result;
  result.found = true;
  const std::unique_ptr<ReadableFile> file = files.open(path);
  const std::uint64_t size = file->size();
  result.in_parts = size > most_bytes;
  LineReader lines(*file, result.in_parts ? size - most_bytes : 0, size);
  for (std::string_view line; lines.next(line);) {
    std::optional<RunEvent> event = parse_struct<RunEvent>(line);
    if (!event) {
      ++result.damaged;
      continue;
    }
    if (!std::isfinite(event->time)) event->time = 0;
    take(*event);
  }
  result.damaged += lines.long_lines();
  return result;
}

std::string line_of(const RunEvent& event) {
  return time_text(event.time) + " rank " + std::to_string(event.rank) + " " + severity_of(event.event) +
         ": " + event.text.substr(0, event.text.find('\n'));
}

}  // namespace cxtrain
