#include "cxtrain/report/event_times.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string_view>

#include "cxtrain/report/saved_rows.h"
#include "cxtrain/report/tensorboard/event_writer.h"

namespace cxtrain {
namespace {

constexpr std::size_t kHeadOfRecord = 12, kTailOfRecord = 4;
constexpr std::uint64_t kLargestRecord = std::uint64_t{1} << 20;

std::uint64_t little_endian_number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// Takes a number of variable length from the front; zeros where the text ends.
std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

/// An `Event` message of tensorboard/event.proto, by protobuf's wire format: this library must not see
/// protobuf's headers. Returns false where it has no step and time, as the first event of a file.
bool parse_event(std::string_view bytes, EventTime& event) {
  bool has_summary = false;
  event.step = 0;
  event.seconds = 0;
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes);
    const std::uint64_t field = key >> 3;
    std::uint64_t skipped = 0;
    switch (key & 7) {
      case 0: {
        const std::uint64_t value = take_varint(bytes);
        if (field == 2) event.step = static_cast<std::int64_t>(value);
        break;
      }
      case 1:
        skipped = sizeof(double);
        if (field == 1 && bytes.size() >= skipped)
          event.seconds = std::bit_cast<double>(little_endian_number(bytes.substr(0, sizeof(double))));
        break;
      case 2:
        skipped = take_varint(bytes);
        has_summary = has_summary || field == 5;
        break;
      case 5:
        skipped = sizeof(float);
        break;
      default:
        return false;
    }
    if (skipped > bytes.size()) return false;
    bytes.remove_prefix(static_cast<std::size_t>(skipped));
  }
  return has_summary && event.step >= 0 && std::isfinite(event.seconds);
}

void read_events_file(const ReadableFile& file, const std::function<void(const EventTime&)>& take) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  std::string buffer;
  std::uint64_t next = 0;
  bool first = true;
  for (std::size_t begin = 0;;) {
    const std::string_view rest = std::string_view(buffer).substr(begin);
    const std::uint64_t length =
        rest.size() < kHeadOfRecord ? 0 : little_endian_number(rest.substr(0, sizeof(std::uint64_t)));
    if (length > kLargestRecord) return;
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
    if (parse_event(rest.substr(kHeadOfRecord, static_cast<std::size_t>(length)), event)) {
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
  constexpr std::size_t kMostFiles = 1000;
  try {
    std::size_t read = 0;
    for (const std::string& name : files.list(run)) {
      const std::string path = run + "/" + name;
      if (!name.starts_with(kEventsPrefix) || !is_file_of_run(files, path)) continue;
      if (++read > kMostFiles) return;
      read_events_file(*files.open(path), take);
    }
  } catch (const FileError&) {
    // What was read so far is what there is.
  }
}

}  // namespace cxtrain
