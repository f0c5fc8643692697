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

/// The part of a tensor in a file that a piece is.
class RangeOfFile final : public StoredValues {
 public:
  /// The file has the whole tensor, or the piece alone. Throws CheckpointError if it has neither.
  RangeOfFile(std::shared_ptr<const SafetensorsFile> file, const SafetensorsEntry& entry, const Piece& piece)
      : file_(std::move(file)), entry_(entry), first_(entry.shape == piece.shape ? 0 : piece.range.begin) {
    const std::int64_t stored = static_cast<std::int64_t>(entry.end - entry.begin) / item();
    if (entry.shape == piece.shape ? piece.range.end > stored : piece.range.size() != stored)
      throw CheckpointError(
          "'" + file_->path() + "': " + entry.name + " has another shape than its description",
          MessageCode::model_mismatch);
  }

  at::Tensor read(ElementRange range) const override {
    at::Tensor values = at::empty({range.size()}, at::TensorOptions().dtype(entry_.dtype));
    file_->read(entry_, static_cast<std::uint64_t>((range.begin - first_) * item()),
                {static_cast<char*>(values.data_ptr()), values.nbytes()});
    return with_true_booleans(values);
  }

 private:
  std::int64_t item() const { return static_cast<std::int64_t>(c10::elementSize(entry_.dtype)); }

  const std::shared_ptr<const SafetensorsFile> file_;
  const SafetensorsEntry& entry_;  ///< of the file
  const std::int64_t first_;       ///< element of the whole with which the entry begins
};

}  // namespace

CheckpointReader::CheckpointReader(Filesystem& files, std::string path, Manifest manifest)
    : files_(files), path_(std::move(path)), manifest_(std::move(manifest)) {
  for (const CheckpointFile& each : manifest_.files) {
    if (each.name.starts_with("model") && each.name.ends_with(".safetensors"))
      model_files_.push_back(file(each.name));
  }
}

const CheckpointReader::File& CheckpointReader::file(const std::string& name) {
  if (const auto open = open_.find(name); open != open_.end()) return open->second;
  const auto is_it = [&](const CheckpointFile& each) { return each.name == name; };
  if (std::ranges::none_of(manifest_.files, is_it))
    throw CheckpointError("the checkpoint '" + path_ + "' has no file '" + name + "'");
  return open_.emplace(name, std::make_shared<const SafetensorsFile>(files_, path_ + "/" + name))
      .first->second;
}

std::map<std::string, const SafetensorsEntry*> CheckpointReader::model() const {
  std::map<std::string, const SafetensorsEntry*> tensors;
  for (const File& each : model_files_) {
    for (const SafetensorsEntry& entry : each->entries()) tensors.emplace(entry.name, &entry);
  }
  return tensors;
}

void CheckpointReader::read_model(std::span<const Piece> pieces) const {
  const at::NoGradGuard no_grad;
  for (const Piece& piece : pieces) {
    const Piece stored{.name = piece.name,
                       .values = {},
                       .shape = piece.shape,
                       .range = piece.range,
                       .stored = values_in_model(piece)};
    fill_pieces({&piece, 1}, {&stored, 1});
  }
}

std::shared_ptr<const StoredValues> CheckpointReader::values_in_model(const Piece& piece) const {
  for (const File& each : model_files_) {
    if (const SafetensorsEntry* entry = each->find(piece.name))
      return std::make_shared<RangeOfFile>(each, *entry, piece);
  }
  throw CheckpointError("the checkpoint '" + path_ + "' lacks the model's " + piece.name,
                        MessageCode::model_mismatch);
}

std::shared_ptr<const StoredValues> CheckpointReader::values_of(const Piece& piece,
                                                                const std::string& file_name,
                                                                const std::string& key) {
  if (file_name.empty()) return values_in_model(piece);
  const File& stored = file(file_name);
  const SafetensorsEntry* entry = stored->find(key);
  if (entry == nullptr)
    throw CheckpointError("'" + stored->path() + "' lacks " + key, MessageCode::model_mismatch);
  return std::make_shared<RangeOfFile>(stored, *entry, piece);
}

StateDict CheckpointReader::state(int rank) {
  if (manifest_.weights_only) {
    throw CheckpointError(
        "the checkpoint '" + path_ +
            "' has the model only (save_weights_only), and a training cannot resume from it; "
            "--model.weights starts a new one from it",
        MessageCode::model_mismatch);
  }
  const File& own = file(numbered_file("training", rank, manifest_.world_size));
  const auto text = own->metadata().find(kStateKey);
  if (text == own->metadata().end())
    throw CheckpointError("'" + own->path() + "' has no state of a training", MessageCode::model_mismatch);
  try {
    return state_from_json(parse_shallow(text->second), [this](Piece& piece, const TensorPlace& place) {
      piece.stored = values_of(piece, place.file, place.key);
    });
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // of the JSON, or for want of memory
    throw CheckpointError("the state of a training in '" + own->path() +
                          "' cannot be read: " + reason_of_json(error) + "; use another checkpoint");
  }
}

}  // namespace cxtrain
