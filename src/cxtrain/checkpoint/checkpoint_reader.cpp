#include "cxtrain/checkpoint/checkpoint_reader.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/shard_files.h"
#include "cxtrain/checkpoint/state_json.h"

namespace cxtrain {
namespace {

/// The part of a stored tensor that a piece is: values in the shape of the whole, or flat.
at::Tensor read_range(const SafetensorsFile& file, const SafetensorsEntry& entry, const Piece& piece) {
  const bool whole = entry.shape == piece.shape;
  const std::int64_t size = piece.range.size();
  const auto item = static_cast<std::int64_t>(c10::elementSize(entry.dtype));
  const std::int64_t begin = whole ? piece.range.begin : 0;
  const std::int64_t stored = static_cast<std::int64_t>(entry.end - entry.begin) / item;
  if (whole ? piece.range.end > stored : size != stored)
    throw CheckpointError("'" + file.path() + "': " + entry.name + " has another shape than its description",
                          MessageCode::model_mismatch);
  const bool all =
      whole && begin == 0 && piece.range.end * item == static_cast<std::int64_t>(entry.end - entry.begin);
  at::Tensor values = at::empty(all ? at::IntArrayRef(piece.shape) : at::IntArrayRef(size),
                                at::TensorOptions().dtype(entry.dtype));
  file.read(entry, static_cast<std::uint64_t>(begin * item),
            {static_cast<char*>(values.data_ptr()), static_cast<std::size_t>(size * item)});
  return with_true_booleans(std::move(values));
}

}  // namespace

CheckpointReader::CheckpointReader(Filesystem& files, std::string path, Manifest manifest)
    : files_(files), path_(std::move(path)), manifest_(std::move(manifest)) {
  for (const CheckpointFile& each : manifest_.files) {
    if (each.name.starts_with("model") && each.name.ends_with(".safetensors"))
      model_files_.push_back(&file(each.name));
  }
}

const SafetensorsFile& CheckpointReader::file(const std::string& name) {
  if (const auto open = open_.find(name); open != open_.end()) return *open->second;
  const auto is_it = [&](const CheckpointFile& each) { return each.name == name; };
  if (std::none_of(manifest_.files.begin(), manifest_.files.end(), is_it))
    throw CheckpointError("the checkpoint '" + path_ + "' has no file '" + name + "'");
  auto file = std::make_unique<SafetensorsFile>(files_, path_ + "/" + name);
  return *open_.emplace(name, std::move(file)).first->second;
}

std::map<std::string, const SafetensorsEntry*> CheckpointReader::model() const {
  std::map<std::string, const SafetensorsEntry*> tensors;
  for (const SafetensorsFile* each : model_files_) {
    for (const SafetensorsEntry& entry : each->entries()) tensors.emplace(entry.name, &entry);
  }
  return tensors;
}

void CheckpointReader::read_model(std::span<const NamedTensor> tensors) const {
  const at::NoGradGuard no_grad;
  for (const SafetensorsFile* each : model_files_) {
    for (const NamedTensor& named : tensors) {
      const SafetensorsEntry* entry = each->find(named.name);
      if (entry != nullptr) at::Tensor(named.tensor).copy_(each->read(*entry));
    }
  }
}

at::Tensor CheckpointReader::fetch(const Piece& piece, const std::string& file_name, const std::string& key) {
  if (file_name.empty()) {
    for (const SafetensorsFile* each : model_files_) {
      if (const SafetensorsEntry* entry = each->find(piece.name)) return read_range(*each, *entry, piece);
    }
    throw CheckpointError("the checkpoint '" + path_ + "' lacks the model's " + piece.name,
                          MessageCode::model_mismatch);
  }
  const SafetensorsFile& stored = file(file_name);
  const SafetensorsEntry* entry = stored.find(key);
  if (entry == nullptr)
    throw CheckpointError("'" + stored.path() + "' lacks " + key, MessageCode::model_mismatch);
  return read_range(stored, *entry, piece);
}

StateDict CheckpointReader::state(int rank) {
  if (manifest_.weights_only) {
    throw CheckpointError(
        "the checkpoint '" + path_ +
            "' has the model only (save_weights_only), and a training cannot resume from it; "
            "--model.weights starts a new one from it",
        MessageCode::model_mismatch);
  }
  const SafetensorsFile& own = file(numbered_file("training", rank, manifest_.world_size));
  const auto text = own.metadata().find(kStateKey);
  if (text == own.metadata().end())
    throw CheckpointError("'" + own.path() + "' has no state of a training", MessageCode::model_mismatch);
  try {
    return state_from_json(parse_shallow(text->second), [this](const Piece& piece, const TensorPlace& place) {
      return fetch(piece, place.file, place.key);
    });
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // of the JSON, or for want of memory
    throw CheckpointError("the state of a training in '" + own.path() +
                          "' cannot be read: " + reason_of_json(error) + "; use another checkpoint");
  }
}

}  // namespace cxtrain
