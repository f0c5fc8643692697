#include "cxtrain/checkpoint/manifest.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/checkpoint/state_json.h"

namespace cxtrain {
namespace {

using Json = nlohmann::json;

constexpr const char *kFormat = "format", *kFormatName = "cxtrain checkpoint",
                     *kFormatVersion = "format_version", *kChecksum = "checksum";
constexpr int kIndent = 1;

Json json_of(const Manifest& m) {
  Json files = Json::array();
  for (const CheckpointFile& file : m.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}});
  Json metrics = Json::object();
  for (const auto& [name, value] : m.metrics) metrics[name] = std::isfinite(value) ? Json(value) : Json();
  return {{kFormat, kFormatName},
          {kFormatVersion, Manifest::kVersion},
          {"program", m.program},
          {"created", m.created},
          {"epoch", m.epoch},
          {"global_step", m.global_step},
          {"sampler",
           {{"seed", m.seed}, {"batch", m.batch}, {"samples", m.samples}, {"global_batch", m.global_batch}}},
          {"world_size", m.world_size},
          {"strategy", m.strategy},
          {"precision", m.precision},
          {"model", m.model},
          {"data", m.data},
          {"weights_only", m.weights_only},
          {"config", m.config},
          {"log_dir", m.log_dir},
          {"metrics", std::move(metrics)},
          {"state", m.state},
          {"files", std::move(files)}};
}

/// A whole number from `least` to `most`.
template <class Number>
Number number_of(const Json& json, const char* name, Number least = 0,
                 Number most = std::numeric_limits<Number>::max()) {
  const Json& value = json.at(name);
  // What a Json of digits alone is; others would be converted.
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < static_cast<std::uint64_t>(least) ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    throw std::out_of_range(std::string(name) + " is not a possible number");
  return value.get<Number>();
}

/// Of a file in the checkpoint's folder.
std::string file_name_of(const Json& json) {
  std::string name = json.at("name").get<std::string>();
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    throw std::out_of_range("a file's name is none");
  return name;
}

Manifest from_json(const Json& json) {
  Manifest m;
  const Json& sampler = json.at("sampler");
  m.program = json.at("program").get<std::string>();
  m.created = json.at("created").get<double>();
  m.epoch = number_of<std::int64_t>(json, "epoch");
  m.global_step = number_of<std::int64_t>(json, "global_step");
  m.seed = number_of<std::uint64_t>(sampler, "seed");
  m.batch = number_of<std::int64_t>(sampler, "batch");
  m.samples = number_of<std::int64_t>(sampler, "samples");
  m.global_batch = number_of<std::int64_t>(sampler, "global_batch");
  m.world_size = number_of<int>(json, "world_size", 1);
  m.strategy = json.at("strategy").get<std::string>();
  m.precision = json.at("precision").get<std::string>();
  m.model = json.at("model").get<std::string>();
  m.data = json.at("data").get<std::string>();
  m.weights_only = json.at("weights_only").get<bool>();
  m.config = json.at("config").get<std::string>();
  m.log_dir = json.at("log_dir").get<std::string>();
  for (const auto& [name, value] : json.at("metrics").items())
    m.metrics[name] = value.is_null() ? std::nan("") : value.get<double>();
  m.state = json.at("state");
  for (const Json& file : json.at("files")) {
    m.files.push_back(
        {file_name_of(file), number_of<std::uint64_t>(file, "bytes"), file.at("xxh3").get<std::string>()});
  }
  return m;
}

std::string dumped(const Json& json) {
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::uint64_t Manifest::bytes() const {
  std::uint64_t sum = 0;
  for (const CheckpointFile& file : files) sum += file.bytes;
  return sum;
}

std::string to_text(const Manifest& manifest) {
  Json json = json_of(manifest);
  json[kChecksum] = checksum_of(dumped(json));
  return dumped(json);
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
    return from_json(json);
  } catch (const CheckpointError&) {
    throw;
  } catch (const std::exception& error) {
    throw refuse("it is damaged (" + reason_of_json(error) + "); use another checkpoint");
  }
}

}  // namespace cxtrain
