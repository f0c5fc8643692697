#include "cxtrain/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ne.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/checkpoint/torch_dtypes.h"

namespace cxtrain {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are copied between files and memory as they are");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // as Python's safetensors has it
constexpr std::size_t kDataAlignment = 64;
constexpr std::string_view kMetadata = "__metadata__";
/// The most dimensions of a tensor that LibTorch's operators take.
constexpr std::size_t kMaxDimensions = 64;

/// The tensors and the metadata of a header. Tensors are in the header's order; their `begin` and `end` are
/// not checked yet.
struct SafetensorsDirectory {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

/// The parser calls a method for each token of a header. A method that returns false ends the parsing;
/// `reason()` is why.
class HeaderListener final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsDirectory take() { return std::move(directory_); }
  const std::string& reason() const { return reason_; }

  bool start_object(std::size_t) override {
    if (level_ == Level::outside) return go_to(Level::header);
    if (level_ != Level::header) return unexpected();
    if (name_ == kMetadata) return go_to(Level::metadata);
    fields_ = {};
    directory_.entries.push_back({name_, at::kByte, {}, 0, 0});
    return go_to(Level::tensor);
  }

  bool key(std::string& key) override {
    if (level_ == Level::header) {
      name_ = key;
      return names_.insert(key).second || refuse("'" + shortened(key, 200) + "' occurs twice");
    }
    field_ = key;
    if (level_ == Level::metadata) {
      return !directory_.metadata.contains(key) ||
             refuse("'" + shortened(key, 200) + "' occurs twice in its metadata");
    }
    bool* given = field_ == "dtype"          ? &fields_.dtype
                  : field_ == "shape"        ? &fields_.shape
                  : field_ == "data_offsets" ? &fields_.offsets
                                             : nullptr;
    if (given == nullptr) return unexpected();
    if (*given) return refuse(where() + " occurs twice");
    return *given = true;
  }

  bool string(std::string& text) override {
    if (level_ == Level::metadata) {
      directory_.metadata.emplace(field_, text);
      return true;
    }
    if (level_ != Level::tensor || field_ != "dtype") return unexpected();
    const auto found = std::ranges::find(torch_dtypes(), text, &TorchDtype::safetensors);
    if (text.empty() || found == torch_dtypes().end()) {
      return refuse("'" + shortened(name_, 200) + "' has the dtype " + shortened(text, 40) +
                    ", which is not known here");
    }
    directory_.entries.back().dtype = found->dtype;
    return true;
  }

  bool start_array(std::size_t) override {
    if (level_ != Level::tensor || field_ == "dtype") return unexpected();
    offsets_given_ = 0;
    return go_to(Level::numbers);
  }

  bool number_unsigned(std::uint64_t number) override {
    if (level_ != Level::numbers) return unexpected();
    SafetensorsEntry& entry = directory_.entries.back();
    if (field_ == "data_offsets") {
      (offsets_given_ == 0 ? entry.begin : entry.end) = number;
      return ++offsets_given_ <= 2 || refuse(where() + " has more than two numbers");
    }
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return refuse(where() + " has a number that is too large");
    entry.shape.push_back(static_cast<std::int64_t>(number));
    return entry.shape.size() <= kMaxDimensions ||
           refuse(where() + " has more than " + std::to_string(kMaxDimensions) + " dimensions");
  }

  bool end_array() override {
    if (field_ == "data_offsets" && offsets_given_ != 2) return refuse(where() + " has not two numbers");
    return go_to(Level::tensor);
  }

  bool end_object() override {
    if (level_ == Level::header) return go_to(Level::outside);
    if (level_ == Level::tensor && !(fields_.dtype && fields_.shape && fields_.offsets))
      return refuse("'" + shortened(name_, 200) + "' lacks its dtype, shape or data_offsets");
    return go_to(Level::header);
  }

  bool number_integer(std::int64_t) override {
    return level_ == Level::numbers ? refuse(where() + " has a negative number") : unexpected();
  }
  bool null() override { return unexpected(); }
  bool boolean(bool) override { return unexpected(); }
  bool number_float(double, const std::string&) override { return unexpected(); }
  bool binary(binary_t&) override { return unexpected(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return refuse("it is not JSON from byte " + std::to_string(position) + " on");
  }

 private:
  enum class Level { outside, header, metadata, tensor, numbers };

  bool go_to(Level level) {
    level_ = level;
    return true;
  }
  bool refuse(const std::string& reason) {
    reason_ = reason;
    return false;
  }
  /// Returns the name of the value that the parser is at, for messages.
  std::string where() const {
    if (level_ == Level::header) return "'" + shortened(name_, 200) + "'";
    return "'" + shortened(field_, 200) + "' of '" + shortened(name_, 200) + "'";
  }
  bool unexpected() {
    return refuse(level_ == Level::outside ? "it is not a JSON object"
                                           : where() + " is not what belongs there");
  }

  Level level_ = Level::outside;
  std::string name_;   ///< of the tensor, or kMetadata
  std::string field_;  ///< of the tensor or the metadata
  struct {
    bool dtype = false, shape = false, offsets = false;
  } fields_;  ///< which the tensor has
  int offsets_given_ = 0;
  std::unordered_set<std::string> names_;
  SafetensorsDirectory directory_;
  std::string reason_;
};

/// Reads the JSON of a header without a tree of values in between, so that odd input takes no more memory
/// than its text. Throws CheckpointError with the reason alone: no JSON, keys that occur twice, are missing
/// or unknown, dtypes that are not known here, numbers that are none or too large.
SafetensorsDirectory parse_safetensors_header(std::string_view json) {
  HeaderListener listener;
  if (!json.starts_with('{')) throw CheckpointError("it is not a JSON object");
  if (!nlohmann::json::sax_parse(json, &listener)) throw CheckpointError(listener.reason());
  return listener.take();
}

/// The bytes of a tensor's elements; nothing where the product is more than LibTorch can count. A dimension
/// of 0 does not hide one that is too large, since LibTorch multiplies the others for the strides.
std::optional<std::uint64_t> bytes_of(const SafetensorsEntry& entry) {
  std::uint64_t bytes = c10::elementSize(entry.dtype);
  bool is_empty = false;
  for (const std::int64_t size : entry.shape) {
    is_empty = is_empty || size == 0;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / factor)
      return std::nullopt;
    bytes *= factor;
  }
  return is_empty ? 0 : bytes;
}

std::string quoted_json(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw CheckpointError("'" + shortened(text, 200) +
                          "' is not UTF-8, as names and texts in a safetensors file have to be; rename it");
  }
}

/// Sorts the entries by place, and throws CheckpointError with the reason where they do not cover the
/// `data_bytes` of data exactly.
void check_places(std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::ranges::stable_sort(entries, [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string name = "'" + shortened(entry.name, 200) + "'";
    const std::optional<std::uint64_t> bytes = bytes_of(entry);
    if (!bytes) throw CheckpointError(name + " has a shape that is too large");
    if (entry.end < entry.begin || entry.end - entry.begin != *bytes) {
      throw CheckpointError("the shape of " + name + " takes " + std::to_string(*bytes) +
                            " bytes, and its data_offsets are " + std::to_string(entry.begin) + " and " +
                            std::to_string(entry.end));
    }
    if (entry.begin != end) {
      throw CheckpointError(name + " begins at byte " + std::to_string(entry.begin) +
                            " of the data, and the tensor before it ends at " + std::to_string(end));
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    throw CheckpointError("its tensors take " + std::to_string(end) + " bytes, and the file has " +
                          std::to_string(data_bytes) + " for them");
  }
}

/// Reads and checks the header: where it ends, and what it says. Throws CheckpointError with the reason
/// alone.
std::pair<std::uint64_t, SafetensorsDirectory> read_header(const ReadableFile& file) {
  const std::uint64_t size = file.size();
  std::array<char, kLengthBytes> start{};
  if (size < kLengthBytes || file.read(0, start) < kLengthBytes)
    throw CheckpointError("it has only " + std::to_string(size) + " bytes");
  const auto length = std::bit_cast<std::uint64_t>(start);
  if (length > std::min(kLongestHeader, size - kLengthBytes)) {
    throw CheckpointError("its header would have " + std::to_string(length) + " bytes, and the file has " +
                          std::to_string(size));
  }
  std::string json(length, '\0');
  if (file.read(kLengthBytes, json) < length) throw CheckpointError("it ends within its header");
  SafetensorsDirectory directory = parse_safetensors_header(json);
  const std::uint64_t data_begin = kLengthBytes + length;
  check_places(directory.entries, size - data_begin);
  return {data_begin, std::move(directory)};
}

}  // namespace

void sort_for_alignment(std::vector<NamedTensor>& tensors) {
  std::ranges::stable_sort(tensors, [](const NamedTensor& a, const NamedTensor& b) {
    return a.tensor.element_size() > b.tensor.element_size();
  });
}

/// The format's name of a dtype ("F32"); empty for a dtype that the format lacks.
std::string_view dtype_name(at::ScalarType dtype) {
  const TorchDtype* const known = find_torch_dtype(dtype);
  return known == nullptr ? "" : known->safetensors;
}

std::vector<SafetensorsEntry> lay_out(std::span<const NamedTensor> tensors) {
  std::vector<SafetensorsEntry> entries;
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    if (dtype_name(tensor.scalar_type()).empty()) {
      throw CheckpointError("'" + name + "' has the dtype " + c10::toString(tensor.scalar_type()) +
                            ", which the safetensors format lacks; convert it");
    }
    const std::uint64_t begin = end;
    end += static_cast<std::uint64_t>(tensor.numel()) * tensor.element_size();
    entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), begin, end});
  }
  return entries;
}

std::string safetensors_header(std::span<const SafetensorsEntry> entries,
                               const std::map<std::string, std::string>& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) json += quoted_json(key) + ":" + quoted_json(value) + ",";
    json.back() = '}';
    json += ',';
  }
  std::unordered_set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.name == kMetadata || !names.insert(entry.name).second) {
      throw CheckpointError("a safetensors file cannot have " +
                            std::string(names.contains(entry.name) ? "two tensors" : "a tensor") +
                            " of the name '" + shortened(entry.name, 200) + "'; rename it");
    }
    json += quoted_json(entry.name) + ":{\"dtype\":\"" + std::string(dtype_name(entry.dtype)) +
            "\",\"shape\":" + nlohmann::json(entry.shape).dump() + ",\"data_offsets\":[" +
            std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]},";
  }
  if (json.size() > 1) json.pop_back();  // the last comma
  json += '}';
  json.resize(round_up(kLengthBytes + json.size(), kDataAlignment) - kLengthBytes, ' ');

  const auto length = std::bit_cast<std::array<char, kLengthBytes>>(std::uint64_t{json.size()});
  return std::string(length.begin(), length.end()) + json;
}

at::Tensor with_true_booleans(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBool ? tensor.view(at::kByte).ne(0) : tensor;
}

SafetensorsFile::SafetensorsFile(Filesystem& files, const std::string& path) : path_(path) {
  try {
    file_ = files.open(path);
    auto [data_begin, directory] = read_header(*file_);
    data_begin_ = data_begin;
    entries_ = std::move(directory.entries);
    metadata_ = std::move(directory.metadata);
  } catch (const FileError& error) {
    throw CheckpointError(error.what(), message_code_of(error));
  } catch (const CheckpointError& reason) {
    throw CheckpointError("'" + path + "' is damaged or no safetensors file: " + reason.what() +
                          "; fetch or write it again");
  }
  by_name_.reserve(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) by_name_.emplace(entries_[i].name, i);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

at::Tensor SafetensorsFile::read(const SafetensorsEntry& entry) const {
  at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(entry.dtype));
  read(entry, 0, {static_cast<char*>(tensor.data_ptr()), entry.end - entry.begin});
  return with_true_booleans(tensor);
}

void SafetensorsFile::read(const SafetensorsEntry& entry, std::uint64_t offset, std::span<char> bytes) const {
  const std::uint64_t size = entry.end - entry.begin;
  if (offset > size || bytes.size() > size - offset) {
    throw CheckpointError("'" + entry.name + "' in '" + path_ + "' has " + std::to_string(size) +
                          " bytes, and " + std::to_string(bytes.size()) + " from " + std::to_string(offset) +
                          " on were asked for");
  }
  std::size_t got = 0;
  try {
    got = file_->read(data_begin_ + entry.begin + offset, bytes);
  } catch (const FileError& error) {
    throw CheckpointError(error.what(), message_code_of(error));
  }
  if (got < bytes.size()) {
    throw CheckpointError("'" + path_ + "' ends within '" + entry.name +
                          "': something has cut it while it was read; fetch or write it again");
  }
}

}  // namespace cxtrain
