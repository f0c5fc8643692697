#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/name_map.h"

namespace cxtrain {

/// Selects the stored tensors that a module gets, and their names in the module. `{.prefix = "backbone."}`
/// loads a backbone that was trained as a part of another model.
struct WeightsSelection {
  NameMap names = {};       ///< maps stored names to the module's names
  std::string prefix = {};  ///< only stored tensors with this prefix of the name; empty: all
  /// False: tensors without a counterpart, or with another shape, are left out instead of rejected.
  bool strict = true;
};

/// Result of `load_weights`. Names are the module's.
struct LoadedWeights {
  std::size_t loaded = 0;                  ///< number of tensors
  std::vector<std::string> kept = {};      ///< the module's tensors that keep their values
  std::vector<std::string> left_out = {};  ///< stored tensors that the module does not have
  /// "fc.weight: Float [3, 4] in the file, Float [3, 5] in the model".
  std::vector<std::string> misshapen = {};
};

/// Stored tensors, matched with the tensors of a model by name and shape. `load_weights` explains the rules.
class MatchedWeights {
 public:
  /// `module`: gives names and shapes, and may be built without memory. Throws CheckpointError as
  /// `load_weights` does before any change.
  MatchedWeights(const torch::nn::Module& module, const std::string& path,
                 const WeightsSelection& selection = {}, Filesystem& files = real_filesystem());

  /// Copies stored tensors into a part of the model, or into the whole model. `prefix`: the path of the part
  /// in the model, with a dot at the end. Skips hollow tensors, and tensors that an earlier call has loaded.
  void load(torch::nn::Module& part, const std::string& prefix);
  const LoadedWeights& loaded() const { return loaded_; }
  /// Warns if not everything was loaded.
  void report() const;

 private:
  std::string path_;
  /// Reads the tensors that are not loaded yet, by each name that a tensor has in the model.
  std::map<std::string, std::function<at::Tensor()>> stored_;
  LoadedWeights loaded_;
};

/// Copies the tensors that are stored at `path` into the module's parameters and buffers of these names.
/// `path`: any format that `open_weights` reads (checkpoint/weights.h). Values are converted to the module's
/// dtypes, on the devices of its tensors. If the module has a tensor under several names, one of the names is
/// enough.
///
/// Throws CheckpointError, before any change, if a tensor of the module is missing in the file, a stored
/// tensor is missing in the module, or shapes differ. The message reports all of these at once. With a
/// prefix, the check covers the stored tensors with the prefix, and the module's tensors with the prefix that
/// `names` makes of it; the module's other tensors keep their values. Without `strict`, only a file without
/// any fitting tensor is rejected.
///
/// Also throws if the file cannot be read, or if its bytes have changed since it was written (a checkpoint's
/// manifest has checksums). If that happens halfway, some tensors have been replaced.
///
/// Every rank calls it by itself, with the same file, before `Trainer::fit` and the other stages, which send
/// rank 0's parameters to all ranks.
LoadedWeights load_weights(torch::nn::Module& module, const std::string& path,
                           const WeightsSelection& selection = {}, Filesystem& files = real_filesystem());
/// Loads all tensors, with the names that `names` makes.
LoadedWeights load_weights(torch::nn::Module& module, const std::string& path, const NameMap& names,
                           Filesystem& files = real_filesystem());

/// Describes the loaded and the left-out tensors for the log: "12 tensors of 'x.ckpt' loaded into the model
/// ...".
std::string describe(const LoadedWeights& loaded, const std::string& path);

}  // namespace cxtrain
