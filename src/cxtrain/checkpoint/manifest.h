#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/field_types.h"

namespace cxtrain {

/// A file of a checkpoint, as it was written.
struct CheckpointFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string xxh3;  ///< XXH3 (128 bits) of the content, 32 hexadecimal digits

  void fields(auto&& field) { CXTRAIN_EACH(field, name, bytes, xxh3); }

  bool operator==(const CheckpointFile&) const = default;
};

/// `manifest.json`, which makes a folder a checkpoint: where the training stood, what trained, and the files.
struct Manifest {
  static constexpr std::string_view kFile = "manifest.json";
  static constexpr int kVersion = 1;

  std::string program;            ///< "cxtrain 0.5.0"
  std::int64_t epoch = 0;         ///< epochs completed
  std::int64_t batch = 0;         ///< micro-batches done in the current epoch: the sampler's position
  std::int64_t global_step = 0;   ///< optimizer steps done
  std::int64_t samples = 0;       ///< trained on, over all ranks
  std::uint64_t seed = 0;         ///< of the sampler and the generators
  std::int64_t global_batch = 0;  ///< samples of a step, over all ranks and micro-batches
  int world_size = 1;
  std::string strategy, precision, model;
  std::string data;           ///< fingerprint of the training data; empty: none was taken
  bool weights_only = false;  ///< nothing but the model
  double created = 0;         ///< seconds since 1970
  std::string config;         ///< config.yaml of the run
  std::string log_dir;        ///< the run's folder
  std::map<std::string, double> metrics;
  /// Of rank 0 (state_json.h), without tensors: loss scale, schedule, callbacks, metrics, loggers. For people
  /// and tools; each rank resumes from its own, in its file.
  nlohmann::json state = nlohmann::json::object();
  std::vector<CheckpointFile> files;

  /// Of all files.
  std::uint64_t bytes() const;

  /// The sampler's fields are an object of their own in the JSON.
  struct SamplerFields {
    Manifest& of;

    void fields(auto&& field) {
      field("seed", of.seed);
      field("batch", of.batch);
      field("samples", of.samples);
      field("global_batch", of.global_batch);
    }
  };
  void fields(auto&& field) {
    SamplerFields sampler{*this};
    CXTRAIN_EACH(field, program, created, epoch, global_step, sampler);
    field("world_size", world_size, in_json::AtLeast{1});
    CXTRAIN_EACH(field, strategy, precision, model, data, weights_only, config, log_dir, metrics, state,
                 files);
  }
};

/// Returns whether a name is the name of a file in a folder: no path, and neither "." nor "..".
bool is_file_name(const std::string& name);

/// JSON with a checksum of itself.
std::string to_text(const Manifest& manifest);
/// Whether the text is JSON without the fields that every manifest of cxtrain has.
bool is_of_another_program(std::string_view text);
/// Throws CheckpointError where `text` is not, to the last byte, what `to_text` wrote, or a later version
/// wrote it. `path`: for the message.
Manifest manifest_from(std::string_view text, const std::string& path);

}  // namespace cxtrain
