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
/// Of a row of metrics; a larger record is not read.
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

/// Calls `take(field, number, content)` for each field of a message in protobuf's wire format: this library
/// must not see protobuf's headers. `content`: bytes of a text, a message or a number of fixed length.
/// Returns false if the message is damaged.
template <class Take>
bool visit_fields(std::string_view bytes, Take&& take) {
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes);
    std::uint64_t number = 0, size = 0;
    switch (key & 7) {
      case 0:
        number = take_varint(bytes);
        break;
      case 1:
        size = sizeof(double);
        break;
      case 2:
        size = take_varint(bytes);
        break;
      case 5:
        size = sizeof(float);
        break;
      default:
        return false;
    }
    if (size > bytes.size()) return false;
    take(key >> 3, number, bytes.substr(0, static_cast<std::size_t>(size)));
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

/// Whether a `Summary` has a scalar: those of images, texts and hyperparameters have none.
bool has_scalar(std::string_view summary) {
  constexpr std::uint64_t kValue = 1, kSimpleValue = 2;
  bool found = false;
  visit_fields(summary, [&](std::uint64_t field, std::uint64_t, std::string_view value) {
    if (field != kValue) return;
    visit_fields(value, [&](std::uint64_t member, std::uint64_t, std::string_view) {
      found = found || member == kSimpleValue;
    });
  });
  return found;
}

/// An `Event` message of tensorboard/event.proto. Returns false if it is not a row of metrics.
bool parse_event(std::string_view bytes, EventTime& event) {
  constexpr std::uint64_t kWallTime = 1, kStep = 2, kSummary = 5;
  bool has_row = false;
  event.step = 0;
  event.seconds = 0;
  const auto take = [&](std::uint64_t field, std::uint64_t number, std::string_view content) {
    if (field == kStep) event.step = static_cast<std::int64_t>(number);
    if (field == kWallTime && content.size() == sizeof(double))
      event.seconds = std::bit_cast<double>(little_endian_number(content));
    if (field == kSummary) has_row = has_row || has_scalar(content);
  };
  return visit_fields(bytes, take) && has_row && event.step >= 0 && std::isfinite(event.seconds);
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
