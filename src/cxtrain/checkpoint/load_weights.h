#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/name_map.h"

namespace cxtrain {

/// Which of the stored tensors a module is to have, and under which names. `{.prefix = "backbone."}` loads a
/// backbone that another model was trained with.
struct WeightsSelection {
  NameMap names = {};       ///< makes the module's names of the stored ones
  std::string prefix = {};  ///< only stored tensors whose names begin so; empty: all
  /// False: tensors that have no counterpart, or one of another shape, are left out rather than refused.
  bool strict = true;
};

/// What `load_weights` has done. Names are the module's.
struct LoadedWeights {
  std::size_t loaded = 0;                  ///< tensors
  std::vector<std::string> kept = {};      ///< the module's tensors that keep their values
  std::vector<std::string> left_out = {};  ///< stored tensors that the module does not have
  /// "fc.weight: Float [3, 4] in the file, Float [3, 5] in the model".
  std::vector<std::string> misshapen = {};
};

/// Copies the tensors that are stored at `path` (anything that `open_weights` knows: checkpoint/weights.h)
/// into the module's parameters and buffers of the same names. Values are converted to the module's dtypes,
/// and go where its tensors are. A tensor that the module has under several names needs one of them.
///
/// Throws CheckpointError, before anything is changed, where the module has a tensor that is missing, lacks
/// one that is stored, or has one of another shape: all of these are told at once. With a prefix this holds
/// for the stored tensors with the prefix and the module's tensors whose names begin with what `names` makes
/// of the prefix; the module's other tensors are kept. Without `strict` only a file of which nothing fits is
/// refused. Throws as well when the file cannot be read, or its bytes are not those that were written (a
/// checkpoint's manifest has their checksums); where that happens halfway, some tensors have been replaced.
///
/// Every rank calls it for itself, with the same file, before `Trainer::fit` and its like: these send rank
/// 0's parameters to the others.
LoadedWeights load_weights(torch::nn::Module& module, const std::string& path,
                           const WeightsSelection& selection = {}, Filesystem& files = real_filesystem());
/// The same for all tensors.
LoadedWeights load_weights(torch::nn::Module& module, const std::string& path, const NameMap& names,
                           Filesystem& files = real_filesystem());

/// What was loaded and what was left out, for the log: "12 tensors of 'x.ckpt' were loaded; ...".
std::string describe(const LoadedWeights& loaded, const std::string& path);

}  // namespace cxtrain
