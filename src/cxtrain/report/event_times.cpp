#include "cxtrain/report/event_times.h"

#include <memory>
#include <string_view>

#include "cxtrain/report/saved_rows.h"
#include "cxtrain/report/tensorboard/event_writer.h"

namespace cxtrain {
namespace {

/// Of a row of metrics; a larger record is not read.
constexpr std::uint64_t kLargestRecord = std::uint64_t{1} << 20;

void read_events_file(const ReadableFile& file, const std::function<void(const EventTime&)>& take) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  std::string buffer;
  std::uint64_t next = 0;
  bool first = true;
  for (std::size_t begin = 0;;) {
    const std::string_view rest = std::string_view(buffer).substr(begin);
    const std::uint64_t length = rest.size() < kHeadOfRecord ? 0 : length_of_record(rest);
    if (length > kLargestRecord) {  // an image
      const std::uint64_t place = next - rest.size(), size = file.size();
      if (length > size || place + kHeadOfRecord + length + kTailOfRecord > size) return;
      next = place + kHeadOfRecord + length + kTailOfRecord;
      buffer.clear();
      begin = 0;
      continue;
    }
    if (rest.size() < kHeadOfRecord || rest.size() < kHeadOfRecord + length + kTailOfRecord) {
      buffer.erase(0, begin);
      begin = 0;
      const std::size_t before = buffer.size();
      buffer.resize(before + kChunk);
      const std::size_t got = file.read(next, {buffer.data() + before, kChunk});
      buffer.resize(before + got);
      next += got;
      if (got == 0) return;
      continue;
    }
    EventTime event;
    if (read_row_time(rest.substr(kHeadOfRecord, static_cast<std::size_t>(length)), event.step,
                      event.seconds)) {
      event.first = first;
      first = false;
      take(event);
    }
    begin += kHeadOfRecord + static_cast<std::size_t>(length) + kTailOfRecord;
  }
}

}  // namespace

void read_event_times(Filesystem& files, const std::string& run,
                      const std::function<void(const EventTime&)>& take) {
  constexpr std::size_t kMaxFiles = 1000;
  try {
    std::size_t read = 0;
    for (const std::string& name : files.list(run)) {
      const std::string path = run + "/" + name;
      if (!name.starts_with(kEventsPrefix) || !is_file_of_run(files, path)) continue;
      if (++read > kMaxFiles) return;
      read_events_file(*files.open(path), take);
    }
  } catch (const FileError&) {
    // What was read so far is what there is.
  }
}

}  // namespace cxtrain
