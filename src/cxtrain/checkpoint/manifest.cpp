#include "cxtrain/checkpoint/manifest.h"

#include <cmath>

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

Manifest from_json(const Json& json) {
  Manifest m;
  const Json& sampler = json.at("sampler");
  m.program = json.at("program").get<std::string>();
  m.created = json.at("created").get<double>();
  m.epoch = json.at("epoch").get<std::int64_t>();
  m.global_step = json.at("global_step").get<std::int64_t>();
  m.seed = sampler.at("seed").get<std::uint64_t>();
  m.batch = sampler.at("batch").get<std::int64_t>();
  m.samples = sampler.at("samples").get<std::int64_t>();
  m.global_batch = sampler.at("global_batch").get<std::int64_t>();
  m.world_size = json.at("world_size").get<int>();
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
    m.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<std::uint64_t>(),
                       file.at("xxh3").get<std::string>()});
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
      throw refuse("it is no manifest of cxtrain");
    if (const Json& version = json.at(kFormatVersion); version != Manifest::kVersion)
      throw refuse("it has format " + version.dump() + ", and this program knows format " +
                   std::to_string(Manifest::kVersion) + "; use the cxtrain that wrote it, or a newer one");
    const bool as_written = dumped(json) == text;
    const std::string checksum = json.value(kChecksum, std::string());
    json.erase(kChecksum);
    if (!as_written || checksum != checksum_of(dumped(json)))
      throw refuse("it is damaged (its checksum is wrong); use another checkpoint");
    return from_json(json);
  } catch (const CheckpointError&) {
    throw;
  } catch (const std::exception& error) {  // of the JSON
    throw refuse("it is damaged (" + std::string(error.what()) + "); use another checkpoint");
  }
}

}  // namespace cxtrain
