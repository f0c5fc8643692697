#pragma once

#include <caffe2/serialize/inline_container.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Pickles written by hand, opcode by opcode, and archives as torch.save makes them.
namespace cxtrain::test::pickled {

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (; bytes > 0; --bytes, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}
inline std::string text(const std::string& value) { return "X" + little_endian(value.size(), 4) + value; }
inline std::string integer(std::int64_t value) {
  return "\x8a\x08" + little_endian(static_cast<std::uint64_t>(value), 8);
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string tuple(const std::string& items) { return "(" + items + "t"; }
inline std::string integers(const std::vector<std::int64_t>& values) {
  std::string items;
  for (const std::int64_t value : values) items += integer(value);
  return tuple(items);
}
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string result = "}(";
  for (const auto& [key, value] : items) result += text(key) + value;
  return result + "u";
}
inline std::string call(const std::string& function, const std::string& arguments) {
  return function + tuple(arguments) + "R";
}
inline std::string ordered_dict() { return global("collections", "OrderedDict") + ")R"; }

struct Tensor {
  std::string key = "0";
  std::string storage = "FloatStorage";
  std::int64_t elements = 6;  ///< of the storage
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
};
inline std::string storage_of(const Tensor& tensor, const std::string& type) {
  return tuple(text("storage") + type + text(tensor.key) + text("cpu") + integer(tensor.elements)) + "Q";
}
inline std::string tensor(const Tensor& tensor) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              storage_of(tensor, global("torch", tensor.storage)) + integer(tensor.offset) +
                  integers(tensor.shape) + integers(tensor.strides) + "\x89" + ordered_dict());
}
/// A whole pickle.
inline std::string program(const std::string& value) { return "\x80\x02" + value + "."; }

/// A zip archive with these records.
inline std::string archive(const std::vector<std::pair<std::string, std::string>>& records,
                           bool packed = false) {
  std::string content;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, std::size_t size) {
    content.append(static_cast<const char*>(bytes), size);
    return size;
  });
  for (const auto& [name, bytes] : records) writer.writeRecord(name, bytes.data(), bytes.size(), packed);
  writer.writeEndOfFile();
  return content;
}

/// The bytes of 0.0f, 1.0f ... below `count`.
inline std::string floats(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

}  // namespace cxtrain::test::pickled
