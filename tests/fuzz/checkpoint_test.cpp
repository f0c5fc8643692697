#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "checkpoint/weights_support.h"
#include "cxtrain/base/log.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/checkpoint/checkpoint_reader.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/checkpoint/shard_files.h"
#include "cxtrain/trainer/reshard_state.h"
#include "cxtrain/trainer/resume.h"
#include "fuzz/fuzz.h"
#include "support/state_difference.h"

/// Checkpoints whose checksums are right and whose content is not: what neither a disk nor a network makes of
/// one, but a bug, another program or somebody's editor may. Everything that reads one gets to see it.
namespace cxtrain::test {
namespace {

using Json = nlohmann::json;
using Folder = std::map<std::string, std::string>;  // files by name

const std::string kPath = "/cxtrain_logs/version_0/checkpoints/epoch=0-step=3.ckpt";
const std::string kManifest(Manifest::kFile);

/// What a short training writes.
Folder written_checkpoint() {
  const TempDir dir;
  const ForkedResult run = fork_program({"fit", "--accelerator=cpu", "--model.hidden=3", "--optimizer=adamw",
                                         "--lr_scheduler=plateau", "--lr_scheduler.monitor=train_loss",
                                         "--max_steps=3", "--checkpoint.every_n_train_steps=3",
                                         "--enable_progress_bar=false", "--default_root_dir=" + dir.path()});
  INFO(run.errors);
  REQUIRE(run.status == 0);
  Folder folder;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() + kPath)) {
    std::ifstream file(entry.path(), std::ios::binary);
    folder[entry.path().filename()] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  REQUIRE(folder.size() == 3);
  return folder;
}

/// A safetensors file in parts.
struct Parts {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
  std::string data;
};

Parts take_apart(const std::string& content) {
  FaultyFilesystem files;
  put_file(files, "/w", content);
  const SafetensorsFile file(files, "/w");
  const std::size_t bytes = file.entries().empty() ? 0 : file.entries().back().end;
  return {file.entries(), file.metadata(), content.substr(content.size() - bytes)};
}

std::string put_together(const Parts& parts) {
  return safetensors_header(parts.entries, parts.metadata) + parts.data;
}

std::string dumped(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace); }

/// With the checksum that belongs to it.
std::string sealed(Json manifest) {
  if (!manifest.is_object()) return dumped(manifest);
  manifest.erase("checksum");
  manifest["checksum"] = checksum_of(dumped(manifest));
  return dumped(manifest);
}

/// Has the manifest say of every file what it is.
void seal(Folder& folder) {
  Json manifest = Json::parse(folder[kManifest]);
  for (Json& file : manifest["files"]) {
    const std::string& content = folder[file["name"]];
    file["bytes"] = content.size();
    file["xxh3"] = checksum_of(content);
  }
  folder[kManifest] = sealed(std::move(manifest));
}

/// The same as two ranks would have written it, alike on both.
Folder of_two_ranks(Folder folder) {
  const std::string one = numbered_file("training", 0, 1);
  Parts parts = take_apart(folder.at(one));
  const std::string first = numbered_file("training", 0, 2), second = numbered_file("training", 1, 2);
  std::string& state = parts.metadata[kStateKey];
  for (std::size_t at = state.find(one); at != std::string::npos; at = state.find(one, at + first.size()))
    state.replace(at, one.size(), first);
  folder[first] = folder[second] = put_together(parts);
  folder.erase(one);
  Json manifest = Json::parse(folder[kManifest]);
  manifest["world_size"] = 2;
  Json files = Json::array();
  for (const auto& [name, content] : folder) {
    if (name != kManifest) files.push_back({{"name", name}});
  }
  manifest["files"] = files;
  folder[kManifest] = dumped(manifest);
  seal(folder);
  return folder;
}

void list_values(Json& json, std::vector<Json*>& values) {
  values.push_back(&json);
  if (!json.is_structured()) return;
  for (Json& part : json) list_values(part, values);
}

Json odd_value(Random& random) {
  static const std::vector<Json> values{nullptr,
                                        true,
                                        0,
                                        1,
                                        -1,
                                        2,
                                        0.5,
                                        1e308,
                                        -1e300,
                                        std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::min(),
                                        std::numeric_limits<std::uint64_t>::max(),
                                        std::int64_t{1} << 61,
                                        1 << 30,
                                        "",
                                        "x",
                                        "/",
                                        "../manifest.json",
                                        "manifest.json",
                                        "model.safetensors",
                                        "7ff0000000000000",
                                        std::string("\0a", 2),
                                        std::string(5000, 'y'),
                                        Json::array(),
                                        Json::object(),
                                        Json::array({0, 1}),
                                        Json::array({-1, std::int64_t{1} << 62}),
                                        Json{{"real", "zz"}},
                                        Json{{"bytes", "abc"}},
                                        Json{{"values", 3}},
                                        Json{{"sections", Json{{"loop", 1}}}}};
  return random.of(values);
}

/// Changed, lost, doubled and exchanged values, in any part of it.
void change(Json& json, Random& random) {
  for (std::size_t n = 1 + random.below(3); n > 0; --n) {
    std::vector<Json*> values;
    list_values(json, values);
    Json& value = *random.of(values);
    switch (random.below(6)) {
      case 0:
        if (value.is_object() && !value.empty()) {
          value.erase(
              std::next(value.begin(), static_cast<std::ptrdiff_t>(random.below(value.size()))).key());
        } else if (value.is_array() && !value.empty()) {
          value.erase(random.below(value.size()));
        } else {
          value = odd_value(random);
        }
        break;
      case 1:
        if (value.is_object()) value[random.one_in(2) ? "values" : "x"] = odd_value(random);
        if (value.is_array()) value.push_back(value.empty() ? odd_value(random) : Json(value.front()));
        break;
      case 2:
        if (value.is_number_integer()) {
          // Unsigned, since that may wrap around.
          value = static_cast<std::int64_t>(value.get<std::uint64_t>() + (random.one_in(2) ? 1U : ~0ULL));
        } else {
          value = odd_value(random);
        }
        break;
      case 3: {
        const Json other = *random.of(values);  // which may be a part of it
        value = other;
        break;
      }
      default:
        value = odd_value(random);
    }
  }
}

/// A file of the checkpoint with a damage that its header's length does not show.
std::string with_damaged_header(const std::string& content, Random& random,
                                const std::vector<std::string>& words) {
  const std::size_t length = static_cast<unsigned char>(content[0]) +
                             256 * static_cast<std::size_t>(static_cast<unsigned char>(content[1]));
  return with_header(random.damage(content.substr(8, length), words), 0) + content.substr(8 + length);
}

void look_at_all(const StateDict& state) { CHECK(first_difference(state, state.clone()).empty()); }

/// What a training that goes on reads, on as many ranks and on another number. Whether it could.
bool resumes_or_is_refused(const Folder& folder) {
  FaultyFilesystem files;
  make_directories(files, kPath);
  for (const auto& [name, content] : folder) put_file(files, kPath + "/" + name, content);
  SoloWorld world;
  Options options;
  options.trainer.default_root_dir = "/";
  bool read = true;
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      read = false;
      CHECK(std::string(error.what()).size() < 16384);
    }
  };
  for (const char* which : {"best", "auto", kPath.c_str()}) {
    options.ckpt_path = which;
    attempt([&] {
      const auto chosen = choose_checkpoint(world, files, options);
      if (!chosen) throw CheckpointError("none");
    });
  }
  attempt([&] {
    const Manifest manifest = read_manifest(files, kPath);
    verify_files(files, kPath, manifest);
    CheckpointReader reader(files, kPath, manifest);
    std::vector<NamedTensor> model;
    for (const auto& [name, entry] : reader.model())
      model.push_back({name, at::empty(entry->shape, at::TensorOptions(entry->dtype))});
    reader.read_model(whole_pieces(model));
    for (int rank = 0; rank < std::min(manifest.world_size, 3); ++rank)
      attempt([&] { look_at_all(reader.state(rank)); });
    attempt([&] { look_at_all(reshard_state(reader, world)); });
  });
  return read;
}

const std::vector<std::string> kWords =
    json_words({"0", "1e400", "1e9", "true", "F32", "BOOL", "I64", "9223372036854775807", "4096", "shape",
                "range", "\\\"file\\\"", "safetensors", "values", "state", "[[[[[[", std::string(500, '['),
                std::string(8, '\0')});

/// `make` changes a copy of a written checkpoint.
template <class Make>
void change_checkpoints(const char* what, std::size_t stream, std::size_t share, Make make) {
  const Folder one = written_checkpoint();
  const std::vector<Folder> whole{one, of_two_ranks(one)};
  const Log silent(/*rank=*/1);  // or the console would have every warning
  for (const Folder& folder : whole) CHECK(resumes_or_is_refused(folder));
  Random random(stream);
  std::size_t read = 0;
  const std::size_t all = cases(share);
  for (std::size_t n = 0; n < all; ++n) {
    Folder folder = random.of(whole);
    make(folder, random);
    CAPTURE(n, folder[kManifest]);
    bool resumed = false;
    CHECK_NOTHROW(resumed = resumes_or_is_refused(folder));
    read += resumed ? 1 : 0;
  }
  WARN(what << ": " << read << " read, " << all - read << " refused");
}

std::string& some_file(Folder& folder, Random& random, const char* stem) {
  std::vector<std::string> names;
  for (const auto& [name, content] : folder) {
    if (name.starts_with(stem) && name != kManifest) names.push_back(name);
  }
  return folder.at(random.of(names));
}

TEST_CASE("damaged manifests of checkpoints") {
  change_checkpoints("manifests", 30, 400, [](Folder& folder, Random& random) {
    folder[kManifest] = random.damage(folder[kManifest], kWords);
  });
}

TEST_CASE("manifests that say something else, with the right checksum") {
  change_checkpoints("sealed manifests", 31, 400, [](Folder& folder, Random& random) {
    Json manifest = Json::parse(folder[kManifest]);
    if (random.one_in(2)) {  // most of it is the state of a training
      change(manifest, random);
    } else {
      manifest.erase("state");
      manifest["state"] = Json::parse(folder[kManifest])["state"];
      static const std::vector<std::string> keys{"world_size", "files",        "sampler",
                                                 "epoch",      "weights_only", "metrics",
                                                 "state",      "data",         "format_version"};
      change(manifest[random.of(keys)], random);
    }
    folder[kManifest] = sealed(std::move(manifest));
  });
}

TEST_CASE("states of trainings that say something else, with the right checksums") {
  change_checkpoints("states", 32, 600, [](Folder& folder, Random& random) {
    std::string& file = some_file(folder, random, "training");
    Parts parts = take_apart(file);
    std::string& text = parts.metadata.at(kStateKey);
    if (random.one_in(3)) {
      text = random.damage(text, kWords);
    } else {
      Json state = Json::parse(text);
      change(state, random);
      text = state.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    try {
      file = put_together(parts);
    } catch (const CheckpointError&) {
      // Not UTF-8, which such a file cannot hold.
    }
    seal(folder);
  });
}

TEST_CASE("files of checkpoints that are damaged, with the right checksums") {
  change_checkpoints("sealed files", 33, 600, [](Folder& folder, Random& random) {
    std::string& file = some_file(folder, random, "");
    file = random.one_in(2) ? with_damaged_header(file, random, kWords) : random.damage(file, kWords);
    seal(folder);
  });
}

}  // namespace
}  // namespace cxtrain::test
