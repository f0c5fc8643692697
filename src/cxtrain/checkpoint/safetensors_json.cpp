#include "cxtrain/checkpoint/safetensors_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_set>

#include "cxtrain/checkpoint/torch_dtypes.h"

namespace cxtrain {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
/// LibTorch's operators take tensors of up to so many dimensions.
constexpr std::size_t kMaxDimensions = 64;

/// Told by the parser what it finds. Returning false ends the parsing, with `reason()`.
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
  /// Of the value that comes now.
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

}  // namespace

SafetensorsDirectory parse_safetensors_header(std::string_view json) {
  HeaderListener listener;
  if (!json.starts_with('{')) throw CheckpointError("it is not a JSON object");
  if (!nlohmann::json::sax_parse(json, &listener)) throw CheckpointError(listener.reason());
  return listener.take();
}

}  // namespace cxtrain
