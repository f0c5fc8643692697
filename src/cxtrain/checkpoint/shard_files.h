#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/state/state_dict.h"
#include "cxtrain/tensor/piece.h"

/// Who writes what of a checkpoint. Every tensor is written once: one that all ranks hold by one of them, so
/// that they share the work, and parts by the ranks that hold them. Pure, but for `exchange`.
namespace cxtrain {

/// A safetensors file that one rank writes: these tensors one after the other.
struct PlannedFile {
  std::string name;
  std::vector<NamedTensor> tensors;             ///< by their keys; any strides, any device
  std::map<std::string, std::string> metadata;  ///< of its header
};

/// What one rank writes.
struct RankShare {
  std::vector<PlannedFile> files;
  /// Of the model's tensors, by name: which file each is in. The same on all ranks.
  std::map<std::string, std::string> model_files;
};

struct ShardFilesInputs {
  int rank = 0, ranks = 1;
  /// All parameters and buffers of the model, in the same order on all ranks. A rank that has not got a
  /// tensor passes one of its name, shape and dtype.
  std::span<const NamedTensor> model;
  /// For each tensor of the model the ranks that have it, increasing, at least one; the same on all ranks.
  /// Empty: every rank has every tensor.
  std::vector<std::vector<int>> holders = {};
  const StateDict* state = nullptr;  ///< of the training; null: the model's tensors are all
  /// The state's sections (of the highest level) in which ranks remember different things.
  std::set<std::string> of_each_rank;
  /// Every rank's text, in rank order.
  std::function<std::vector<std::string>(const std::string&)> exchange;
};

/// Collective: calls `exchange` once where there is a state. The last file has the rank's state
/// (state_json.h) in its header, under kStateKey.
RankShare shard_files(const ShardFilesInputs& inputs);

inline constexpr const char* kStateKey = "cxtrain.state";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

/// "model-00002-of-00004.safetensors"; "model.safetensors" where there is one.
std::string numbered_file(const std::string& stem, int index, int count);

/// Which files a model's tensors are in, as Hugging Face writes it, so that its tools read many files as one.
std::string index_json(const std::map<std::string, std::string>& model_files, std::uint64_t bytes);

}  // namespace cxtrain
