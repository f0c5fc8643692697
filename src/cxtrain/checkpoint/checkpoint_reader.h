#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/manifest.h"
#include "cxtrain/checkpoint/safetensors.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// Reads a checkpoint whose files are known to be whole (`verify_files`). Used by one thread.
class CheckpointReader {
 public:
  /// Throws CheckpointError where a header is none.
  CheckpointReader(Filesystem& files, std::string path, Manifest manifest);

  const Manifest& manifest() const { return manifest_; }
  const std::string& path() const { return path_; }
  /// Names, dtypes and shapes of the model's parameters and buffers, by name.
  std::map<std::string, const SafetensorsEntry*> model() const;
  /// Fills pieces of the model's parameters and buffers with the stored values. Throws CheckpointError if the
  /// checkpoint lacks a tensor.
  void read_model(std::span<const Piece> pieces) const;
  /// Returns the state that rank `rank` of the saved training has written. The tensors stay in the files, and
  /// the result keeps the files open. Throws CheckpointError for a checkpoint of weights only.
  StateDict state(int rank);

 private:
  using File = std::shared_ptr<const SafetensorsFile>;
  const File& file(const std::string& name);
  std::shared_ptr<const StoredValues> values_in_model(const Piece& piece) const;
  std::shared_ptr<const StoredValues> values_of(const Piece& piece, const std::string& file_name,
                                                const std::string& key);

  Filesystem& files_;
  std::string path_;
  Manifest manifest_;
  std::map<std::string, File> open_;
  std::vector<File> model_files_;
};

}  // namespace cxtrain
