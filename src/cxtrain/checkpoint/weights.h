#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/checkpoint_error.h"

namespace cxtrain {

/// A tensor in a file, which has not been read yet.
struct StoredTensor {
  std::string name;
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
  /// Gives a CPU tensor; throws CheckpointError when the file cannot be read. May be called when the
  /// StoredWeights are gone.
  std::function<at::Tensor()> read;
};

/// The tensors of one model, as some file or folder has them.
struct StoredWeights {
  std::string path;                   ///< as it was asked for
  std::string format;                 ///< "safetensors", "PyTorch", "TorchScript" ..., for people
  std::vector<StoredTensor> tensors;  ///< names occur once
  std::vector<std::string> skipped;   ///< entries that look like tensors, and are of no kind that can be read
  std::map<std::string, std::string> metadata = {};  ///< texts that a safetensors file has besides
};

/// Finds out what is at `path`, by its content, and what tensors it has:
///
///   * a safetensors file;
///   * several of them with an index (*.safetensors.index.json);
///   * a folder with model.safetensors.index.json or model.safetensors: a checkpoint of ours, or one of
///     Hugging Face's;
///   * what torch.save, Lightning or TorchScript wrote (checkpoint/torch_archive.h).
///
/// Nothing in a file is executed. `files` is not used later. Throws CheckpointError with the path, the reason
/// and the cure.
StoredWeights open_weights(Filesystem& files, const std::string& path);

/// The same for who uses the values: where a checkpoint's manifest lies beside the weights, their bytes are
/// compared with its checksums first. Throws CheckpointError naming a file that is damaged.
StoredWeights open_verified_weights(Filesystem& files, const std::string& path);

}  // namespace cxtrain
