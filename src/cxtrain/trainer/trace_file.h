#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/filesystem.h"

/// A trace of all ranks, in Chrome's JSON format, which ui.perfetto.dev and chrome://tracing show. Each rank
/// writes a part; rank 0 puts the parts together.
namespace cxtrain {

/// Something that took time on a rank.
struct TraceEvent {
  std::string name;
  std::string_view category;       ///< "phase", "operation", "exchange" or "device"
  double begin = 0, duration = 0;  ///< microseconds; begins of all ranks count from one moment
  std::int64_t track = 0;          ///< a thread, the network, or a stream of a device
};

/// The part of a rank: the file, and what the other ranks have to know of it.
struct TracePart {
  int rank = 0;
  std::string host = {};
  std::int64_t events = 0;  ///< 0: there is no file
  double clock_error = 0;   ///< seconds by which the rank's begins may be wrong against those of rank 0
  std::string error = {};   ///< why the part is missing

  void fields(auto&& field) { CXTRAIN_EACH(field, rank, host, events, clock_error, error); }
};

/// Writes the part of a rank into a folder, event by event.
class TracePartFile {
 public:
  /// `files` outlives it. Throws FileError, as all methods do.
  TracePartFile(Filesystem& files, const std::string& folder, int rank);

  void add(const TraceEvent& event);
  void name_track(std::int64_t track, const std::string& name);
  /// Closes the file; nothing is added after it.
  void close();

 private:
  void add_line(const std::string& json);

  int rank_;
  std::string buffer_;
  std::unique_ptr<WritableFile> file_;
};

inline constexpr const char* kTraceFile = "trace.json.gz";

/// Puts the files of the parts that have one into `folder`/trace.json.gz, and removes them. Needs little
/// memory for any length of the parts. Throws FileError.
void merge_trace(Filesystem& files, const std::string& folder, std::span<const TracePart> parts);

}  // namespace cxtrain
