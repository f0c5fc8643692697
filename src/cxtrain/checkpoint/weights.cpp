#include "cxtrain/checkpoint/weights.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cxtrain/base/shallow_json.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/checkpoint/manifest.h"
#include "cxtrain/checkpoint/safetensors.h"
#include "cxtrain/checkpoint/shard_files.h"
#include "cxtrain/checkpoint/torch_archive.h"

namespace cxtrain {
namespace {

constexpr const char* kSingleFile = "model.safetensors";

StoredTensor stored(const std::shared_ptr<const SafetensorsFile>& file, const SafetensorsEntry& entry) {
  return {entry.name, entry.dtype, entry.shape, [file, &entry] { return file->read(entry); }};
}

StoredWeights open_safetensors(Filesystem& files, const std::string& path) {
  const auto file = std::make_shared<const SafetensorsFile>(files, path);
  StoredWeights weights{path, "safetensors", {}, {}, file->metadata()};
  for (const SafetensorsEntry& entry : file->entries()) weights.tensors.push_back(stored(file, entry));
  return weights;
}

/// The index's "weight_map": from names of tensors to names of files.
std::map<std::string, std::string> read_index(Filesystem& files, const std::string& path) {
  constexpr std::uint64_t kLongest = 100'000'000;
  const auto refuse = [&](const std::string& reason) {
    throw CheckpointError("'" + path + "' is damaged or no index of safetensors files: " + reason +
                          "; fetch or write it again");
  };
  const std::optional<Filesystem::Status> status = files.status(path);
  if (status && status->size > kLongest) refuse("it has " + std::to_string(status->size) + " bytes");
  const std::string text = read_whole_file(files, path);
  const auto json = parse_shallow_json<nlohmann::json>(text);  // where the map's entries lie
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    refuse("it is not JSON with a weight_map");
  std::map<std::string, std::string> map;
  for (const auto& [name, file] : json["weight_map"].items()) {
    if (!file.is_string()) refuse("'" + shortened(name, 200) + "' has no file");
    const auto& file_name = file.get_ref<const std::string&>();
    if (!is_file_name(file_name))
      refuse("'" + shortened(file_name, 200) + "' is not the name of a file beside it");
    map.emplace(name, file_name);
  }
  return map;
}

StoredWeights open_sharded(Filesystem& files, const std::string& path, const std::string& index) {
  StoredWeights weights{path, "safetensors in several files", {}, {}};
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> shards;
  for (const auto& [name, file_name] : read_index(files, index)) {
    std::shared_ptr<const SafetensorsFile>& file = shards[file_name];
    if (!file) {
      const std::filesystem::path shard = std::filesystem::path(index).parent_path() / file_name;
      file = std::make_shared<const SafetensorsFile>(files, shard.string());
      weights.metadata.insert(file->metadata().begin(), file->metadata().end());
    }
    const SafetensorsEntry* entry = file->find(name);
    if (entry == nullptr) {
      throw CheckpointError("'" + file->path() + "' lacks '" + shortened(name, 200) + "', which '" + index +
                            "' says is in it; fetch both again");
    }
    weights.tensors.push_back(stored(file, *entry));
  }
  return weights;
}

StoredWeights open_folder(Filesystem& files, const std::string& path) {
  const std::string index = path + "/" + kIndexFile, single = path + "/" + kSingleFile;
  if (files.status(index)) return open_sharded(files, path, index);
  if (!files.status(single)) {
    throw CheckpointError("the folder '" + path + "' has no weights: neither " + kSingleFile + " nor " +
                              kIndexFile + "; name a checkpoint's folder, or a file in it",
                          MessageCode::checkpoint_missing);
  }
  StoredWeights weights = open_safetensors(files, single);
  weights.path = path;
  return weights;
}

/// The first bytes of a file; fewer where it ends.
std::string first_bytes(Filesystem& files, const std::string& path) {
  std::string bytes(16, '\0');
  bytes.resize(files.open(path)->read(0, bytes));
  return bytes;
}

StoredWeights open_file(Filesystem& files, const std::string& path) {
  const std::string start = first_bytes(files, path);
  if (start.starts_with('{')) return open_sharded(files, path, path);
  if ((start.size() > 8 && start[8] == '{') || path.ends_with(".safetensors"))
    return open_safetensors(files, path);
  if (start.starts_with("PK\x03\x04")) return open_torch_archive(files, path);
  if (start.starts_with('\x80')) {
    throw CheckpointError(
        "'" + path +
        "' is a pickle without an archive, as torch.save wrote it before PyTorch 1.6; load it in "
        "Python and save it again, with a newer torch.save or as safetensors");
  }
  throw CheckpointError("'" + path +
                        "' is damaged or no file of weights: it is neither safetensors, nor an index of such "
                        "files, nor what torch.save writes; fetch it again, or convert it");
}

}  // namespace

StoredWeights open_weights(Filesystem& files, const std::string& path) {
  try {
    const std::optional<Filesystem::Status> status = files.status(path);
    if (!status)
      throw CheckpointError("there is no file or folder '" + path + "'; check the path",
                            MessageCode::checkpoint_missing);
    return status->is_directory ? open_folder(files, path) : open_file(files, path);
  } catch (const FileError& error) {
    throw CheckpointError(error.what(), message_code_of(error));
  }
}

StoredWeights open_verified_weights(Filesystem& files, const std::string& path) {
  StoredWeights weights = open_weights(files, path);
  const auto status = files.status(path);
  const std::string folder = status && status->is_directory ? path : parent_directory(path);
  std::optional<Manifest> manifest = find_manifest(files, folder);
  if (!manifest) return weights;
  std::erase_if(manifest->files, [](const CheckpointFile& file) { return !file.name.starts_with("model"); });
  verify_files(files, folder, *manifest);
  return weights;
}

}  // namespace cxtrain
