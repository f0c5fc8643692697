#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cxtrain::test {

/// A value in a TensorBoard events file.
struct ReadEvent {
  std::int64_t step = 0;
  std::string tag;
  float value = 0;
  std::string png = {};                     ///< of an image
  std::array<std::uint64_t, 3> shape = {};  ///< of an image: height, width, channels
  std::string text = {};                    ///< of a tensor of one string
  std::string plugin = {};                  ///< TensorBoard's, if the value names it
  bool operator==(const ReadEvent&) const = default;
};

/// Protobuf's wire format, as far as events have it.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}
  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t key = varint();
    field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        number = varint();
        break;
      case 1:
        number = fixed(8);
        break;
      case 2:
        text = take(varint());
        break;
      default:
        number = fixed(4);
    }
    return true;
  }
  int field = 0;
  std::uint64_t number = 0;
  std::string_view text;

 private:
  std::string_view take(std::size_t size) {
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  std::uint64_t fixed(std::size_t size) {
    const std::string_view bytes = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }
  std::string_view bytes_;
};

/// The summary's value of an event.
inline ReadEvent read_value(std::string_view content, std::int64_t step) {
  ReadEvent read{.step = step, .tag = {}};
  for (WireReader value(content); value.next();) {
    if (value.field == 1) read.tag = value.text;
    if (value.field == 2) read.value = std::bit_cast<float>(static_cast<std::uint32_t>(value.number));
    for (WireReader image(value.field == 4 ? value.text : ""); image.next();) {
      if (image.field >= 1 && image.field <= 3)
        read.shape[static_cast<std::size_t>(image.field - 1)] = image.number;
      if (image.field == 4) read.png = image.text;
    }
    for (WireReader tensor(value.field == 8 ? value.text : ""); tensor.next();) {
      if (tensor.field == 8) read.text = tensor.text;
    }
    for (WireReader metadata(value.field == 9 ? value.text : ""); metadata.next();) {
      for (WireReader plugin(metadata.field == 1 ? metadata.text : ""); plugin.next();) {
        if (plugin.field == 1) read.plugin = plugin.text;
      }
    }
  }
  return read;
}

/// All values of a file's content, in its order; checksums are not looked at.
inline std::vector<ReadEvent> read_events(std::string_view content) {
  std::vector<ReadEvent> events;
  while (content.size() >= 16) {
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(content[i]);
    WireReader event(content.substr(12, length));
    content.remove_prefix(std::min<std::size_t>(content.size(), 16 + length));
    std::int64_t step = 0;
    while (event.next()) {
      if (event.field == 2) step = static_cast<std::int64_t>(event.number);
      if (event.field != 5) continue;
      for (WireReader summary(event.text); summary.next();) events.push_back(read_value(summary.text, step));
    }
  }
  return events;
}

}  // namespace cxtrain::test
