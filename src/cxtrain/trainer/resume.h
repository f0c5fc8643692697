#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/strategy/trainable.h"

namespace cxtrain {

/// A checkpoint that `ckpt_path` means, found whole.
struct ChosenCheckpoint {
  std::string path;
  Manifest manifest;
  std::string log_dir = {};  ///< of the run that wrote it; empty: it is no longer there
  bool in_place = false;  ///< the run goes on in that folder (`last`, `auto`, a run); else in one of its own
};

/// What may be done with a checkpoint's path and manifest while its files are being verified.
using Meanwhile = std::function<void(const std::string& path, const Manifest& manifest)>;

/// The checkpoint that `ckpt_path` means:
///   last  the newest one of the newest run below `default_root_dir` that has any (or in
///         `checkpoint.dirpath`, where that is given);
///   auto  the same, and where it is damaged the one before it, after a warning; none where there is none;
///   best  the one that ModelCheckpoint's metric says is the best, of that run;
///   else  the checkpoint of this name; or of the run whose folder this is the newest, and where that is
///         damaged the one before it.
/// Every file's checksum is compared; the ranks share that work. `meanwhile` is called for each checkpoint
/// that is tried. `own_run`: the folder of the run that is meant instead of the newest one. Throws
/// CheckpointError, on all ranks alike. Collective.
std::optional<ChosenCheckpoint> choose_checkpoint(World& world, Filesystem& files, const Options& options,
                                                  const Meanwhile& meanwhile = {},
                                                  const std::string& own_run = {});

/// The checkpoints of one run that a fit can go on from (an evaluation: use), the one that has trained
/// furthest first; of those whose manifests cannot be read the reasons are appended to `damaged`.
std::vector<FoundCheckpoint> checkpoints_of_run(Filesystem& files, const std::string& run,
                                                const Options& options, std::vector<std::string>& damaged);

/// The training that a fit resumes: from a checkpoint, or from the state that a caller passes (`ResumeFrom`).
/// For a passed state, `chosen.path` is empty, and the manifest has only the fingerprint of the data.
struct LoadedCheckpoint {
  ChosenCheckpoint chosen;
  StateDict state;  ///< as this rank saved it; for another number of ranks, what it goes on with
};

/// Reads the checkpoint that `ckpt_path` means; none where it is absent, or `auto` finds none. Throws
/// CheckpointError, on all ranks alike and before anything has changed, where it is of another model (naming
/// the first parameter or buffer that differs). `own_run`: as for `choose_checkpoint`. Collective.
std::optional<LoadedCheckpoint> load_checkpoint(World& world, Filesystem& files, const Options& options,
                                                const Trainable& model, const std::string& own_run = {});

/// Gives the model the parameters and buffers of the checkpoint that `ckpt_path` means; one of weights only
/// will do. Of a model in parts a rank reads its parts. Does nothing if `ckpt_path` is absent. Throws
/// CheckpointError, on all ranks alike. `own_run`: the folder of a run, whose checkpoints `last`, `best` and
/// `auto` mean then. Collective.
void load_model_of_checkpoint(World& world, Filesystem& files, const Options& options, Trainable& model,
                              const std::string& own_run = {});

}  // namespace cxtrain
