#include "cxtrain/checkpoint/manifest.h"

#include <stdexcept>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/shallow_json.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/checkpoint/state_json.h"

namespace cxtrain {
namespace {

using Json = nlohmann::json;

constexpr const char *kFormat = "format", *kFormatName = "cxtrain checkpoint",
                     *kFormatVersion = "format_version", *kChecksum = "checksum";
constexpr int kIndent = 1;

Manifest manifest_of_json(const Json& json) {
  auto manifest =
      struct_of_json<Manifest>(json, {.document = "the manifest", .all_needed = true, .numbers = {0}});
  for (const CheckpointFile& file : manifest.files) {
    if (!is_file_name(file.name)) throw std::out_of_range("a file's name is none");
  }
  return manifest;
}

std::string dumped(const Json& json) { return text_of_json(json, kIndent); }

}  // namespace

bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

std::uint64_t Manifest::bytes() const {
  std::uint64_t sum = 0;
  for (const CheckpointFile& file : files) sum += file.bytes;
  return sum;
}

std::string to_text(const Manifest& manifest) {
  Json json = json_of<Json>(manifest);
  json[kFormat] = kFormatName;
  json[kFormatVersion] = Manifest::kVersion;
  json[kChecksum] = checksum_of(dumped(json));
  return dumped(json);
}

bool is_of_another_program(std::string_view text) {
  const Json json = parse_shallow_json<Json>(text);
  return !json.is_discarded() && !json.contains(kFormat) && !json.contains(kFormatVersion);
}

Manifest manifest_from(std::string_view text, const std::string& path) {
  const auto refuse = [&](const std::string& why) -> CheckpointError {
    return CheckpointError("cannot use the checkpoint's '" + path + "': " + why);
  };
  try {
    Json json = parse_shallow(text);
    if (!json.is_object() || json.value(kFormat, Json()) != kFormatName)
      throw refuse("it is not a manifest of cxtrain");
    if (const Json& version = json.at(kFormatVersion); version != Manifest::kVersion)
      throw refuse("it has format " + version.dump() + ", and this program reads format " +
                   std::to_string(Manifest::kVersion) + "; use the cxtrain that wrote it, or a newer one");
    const bool as_written = dumped(json) == text;
    const std::string checksum = json.value(kChecksum, std::string());
    json.erase(kChecksum);
    if (!as_written || checksum != checksum_of(dumped(json)))
      throw refuse("it is damaged (its checksum is wrong); use another checkpoint");
    return manifest_of_json(json);
  } catch (const CheckpointError&) {
    throw;
  } catch (const std::exception& error) {
    throw refuse("it is damaged (" + reason_of_json(error) + "); use another checkpoint");
  }
}

}  // namespace cxtrain
