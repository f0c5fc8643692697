#include "cxtrain/checkpoint/zip_directory.h"

#include <algorithm>
#include <string_view>

#include "cxtrain/checkpoint/checkpoint_error.h"

namespace cxtrain {
namespace {

constexpr std::string_view kEnd = "PK\x05\x06", kEnd64 = "PK\x06\x06", kLocator64 = "PK\x06\x07",
                           kEntry = "PK\x01\x02";
/// Bytes of these without what has a length of its own.
constexpr std::size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46,
                      kLongestComment = 65535;
constexpr std::uint64_t kLongestDirectory = std::uint64_t{256} << 20;
constexpr std::uint64_t kIn64 = 0xffffffff;  ///< the number stands in a field of 64 bits instead

[[noreturn]] void refuse(const char* why) { throw CheckpointError(why); }

std::string bytes_at(const ReadableFile& file, std::uint64_t offset, std::uint64_t count) {
  std::string bytes(static_cast<std::size_t>(count), '\0');
  if (file.read(offset, bytes) != bytes.size()) refuse("it is cut short");
  return bytes;
}

/// Unsigned, of `size` bytes, little-endian; `at + size` lies in `bytes`.
std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

struct DirectoryPlace {
  std::uint64_t offset, bytes;
};

DirectoryPlace find_directory(const ReadableFile& file) {
  const std::uint64_t size = file.size();
  const std::uint64_t tail_bytes = std::min<std::uint64_t>(size, kEndBytes + kLongestComment + kLocatorBytes);
  const std::string tail = bytes_at(file, size - tail_bytes, tail_bytes);
  const std::size_t end = tail.rfind(kEnd);
  if (end == std::string::npos || tail.size() - end < kEndBytes)
    refuse("the directory at its end is missing: it is cut short");
  DirectoryPlace place{number(tail, end + 16, 4), number(tail, end + 12, 4)};
  if (end >= kLocatorBytes && tail.compare(end - kLocatorBytes, kLocator64.size(), kLocator64) == 0) {
    const std::uint64_t at = number(tail, end - kLocatorBytes + 8, 8);
    if (at > size || size - at < kEnd64Bytes) refuse("its directory lies outside of it");
    const std::string end64 = bytes_at(file, at, kEnd64Bytes);
    if (!end64.starts_with(kEnd64)) refuse("its directory is damaged");
    place = {number(end64, 48, 8), number(end64, 40, 8)};
  }
  if (place.offset > size || place.bytes > size - place.offset) refuse("its directory lies outside of it");
  if (place.bytes > kLongestDirectory) refuse("its directory is too large");
  return place;
}

/// The unpacked size of an entry, in its field of 64 bits where it has one.
std::uint64_t size_of_entry(std::string_view entry, std::string_view extra) {
  const std::uint64_t bytes = number(entry, 24, 4);
  if (bytes != kIn64) return bytes;
  while (extra.size() >= 4) {
    const std::uint64_t kind = number(extra, 0, 2), length = number(extra, 2, 2);
    if (length > extra.size() - 4) break;
    if (kind == 1 && length >= 8) return number(extra, 4, 8);
    extra.remove_prefix(static_cast<std::size_t>(4 + length));
  }
  return bytes;
}

}  // namespace

std::vector<ZipRecord> read_zip_directory(const ReadableFile& file) {
  const DirectoryPlace place = find_directory(file);
  const std::string directory = bytes_at(file, place.offset, place.bytes);
  std::vector<ZipRecord> records;
  for (std::string_view rest = directory; rest.size() >= kEntryBytes && rest.starts_with(kEntry);) {
    const auto name = static_cast<std::size_t>(number(rest, 28, 2)),
               extra = static_cast<std::size_t>(number(rest, 30, 2)),
               comment = static_cast<std::size_t>(number(rest, 32, 2));
    if (rest.size() - kEntryBytes < name + extra + comment) refuse("its directory is damaged");
    records.push_back({std::string(rest.substr(kEntryBytes, name)), number(rest, 10, 2) != 0,
                       size_of_entry(rest, rest.substr(kEntryBytes + name, extra))});
    rest.remove_prefix(kEntryBytes + name + extra + comment);
  }
  return records;
}

}  // namespace cxtrain
