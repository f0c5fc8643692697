#include "cxtrain/trainer/resume.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/log.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/report/run_lock.h"
#include "cxtrain/strategy/keep_ranges.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/trainer/chosen_checkpoint_folder.h"
#include "cxtrain/trainer/reshard_state.h"

namespace cxtrain {
namespace {

constexpr const char *kLast = "last", *kBest = "best", *kAuto = "auto";

/// What rank 0 found on the disk.
struct Candidates {
  std::vector<std::string> paths = {};    ///< those to try, in this order
  std::vector<std::string> damaged = {};  ///< messages
  bool of_a_run = false;                  ///< `ckpt_path` is the folder of a run

  void fields(auto&& field) { CXTRAIN_EACH(field, paths, damaged, of_a_run); }
};

std::string last_part(const std::string& path) { return std::filesystem::path(path).filename().string(); }

/// Those in a folder that a fit can go on from, or an evaluation use; the one that has trained furthest
/// first.
std::vector<FoundCheckpoint> usable_checkpoints(Filesystem& files, const std::string& folder,
                                                const Options& options, std::vector<std::string>& damaged) {
  std::vector<FoundCheckpoint> found = find_checkpoints(files, folder, damaged);
  if (options.subcommand == "fit")
    std::erase_if(found, [](const FoundCheckpoint& each) { return each.manifest.weights_only; });
  return found;
}

/// Without a checkpoint that could be used, and for these reasons.
[[noreturn]] void refuse_candidates(std::string why, const std::vector<std::string>& damaged,
                                    const std::string& hint = "") {
  for (const std::string& message : damaged) why += "; " + message;
  throw CheckpointError(why + hint, MessageCode::checkpoint_missing);
}

/// Whether `path` is this user's; else a warning says that it is passed over. Whoever may write into a shared
/// default_root_dir could hand a training to others otherwise.
bool is_own(Filesystem& files, const std::string& path) {
  if (belongs_to_this_user(files, path)) return true;
  log_warning("'" + path + "' is passed over, since it belongs to another user; --ckpt_path " + path +
              " would use it");
  return false;
}

/// Those of the newest run that has any, or (`of_all_runs`) of each; the newest run first. What belongs to
/// other users is passed over.
std::vector<FoundCheckpoint> newest_checkpoints(Filesystem& files, const Options& options, bool of_all_runs,
                                                std::vector<std::string>& damaged,
                                                const std::string& own_run) {
  if (!own_run.empty()) return checkpoints_of_run(files, own_run, options, damaged);
  const auto of_others = [&](const FoundCheckpoint& each) { return !is_own(files, each.path); };
  std::vector<FoundCheckpoint> candidates;
  if (const std::string folder = chosen_checkpoint_folder(options); !folder.empty()) {
    candidates = usable_checkpoints(files, folder, options, damaged);
    std::erase_if(candidates, of_others);
    return candidates;
  }
  for (const std::string& run : version_dirs(files, options.trainer.default_root_dir)) {
    const std::string checkpoints = run + "/checkpoints";
    if (!is_own(files, run) || (files.own_status(checkpoints) && !is_own(files, checkpoints))) continue;
    for (FoundCheckpoint& found : checkpoints_of_run(files, run, options, damaged)) {
      if (!of_others(found)) candidates.push_back(std::move(found));
    }
    if (!candidates.empty() && !of_all_runs) break;
  }
  return candidates;
}

bool is_run_folder(Filesystem& files, const std::string& path) {
  const auto has = [&](std::string_view name) {
    return files.status(path + "/" + std::string(name)).has_value();
  };
  return !has(Manifest::kFile) && (has("checkpoints") || has(kRunLockFile));
}

/// Whether the section of a callback's state is that of a ModelCheckpoint that follows a metric. Sections of
/// earlier commits have the metric in their key only.
bool follows_metric(const std::string& key, const nlohmann::json& section) {
  if (!key.starts_with("ModelCheckpoint")) return false;
  const nlohmann::json::json_pointer monitor("/values/monitor");
  if (section.contains(monitor)) return !section.at(monitor).get_ref<const std::string&>().empty();
  return !key.starts_with("ModelCheckpoint{monitor: ,");
}

/// What a ModelCheckpoint remembered as its best; it lies beside the one that remembers.
std::string best_of(const FoundCheckpoint& newest) {
  using Pointer = nlohmann::json::json_pointer;
  try {
    const nlohmann::json callbacks =
        newest.manifest.state.value(Pointer("/sections/callbacks/sections"), nlohmann::json::object());
    for (const auto& [key, section] : callbacks.items()) {
      if (!follows_metric(key, section)) continue;
      const std::string best = section.value(Pointer("/values/best_model_path"), std::string());
      if (!best.empty()) return parent_directory(newest.path) + "/" + last_part(best);
    }
  } catch (const nlohmann::json::exception&) {
    // Another program's idea of a state.
  }
  return newest.path;
}

/// Where `path` is the folder of a run, its checkpoints, the newest first.
Candidates look_into_run(Filesystem& files, const std::string& path, const Options& options) {
  const std::string checkpoints = path + "/checkpoints";
  // Older checkpoints are removed there later: not behind somebody else's link.
  const auto status = files.own_status(checkpoints);
  if (status && status->is_link && !belongs_to_this_user(files, checkpoints)) {
    throw CheckpointError(
        "'" + checkpoints +
            "' is a link that belongs to another user; name the checkpoint itself with --ckpt_path",
        MessageCode::unsafe_file);
  }
  Candidates candidates{.of_a_run = true};
  for (const FoundCheckpoint& found : checkpoints_of_run(files, path, options, candidates.damaged))
    candidates.paths.push_back(found.path);
  if (!candidates.paths.empty()) return candidates;
  refuse_candidates("the run '" + path + "' has no checkpoint", candidates.damaged);
}

/// A checkpoint, or a run's folder, that the user names.
Candidates look_at(Filesystem& files, const std::string& path, const Options& options) {
  try {
    if (is_run_folder(files, path)) return look_into_run(files, path, options);
    read_manifest(files, path);  // or it is refused
  } catch (const FileError& error) {
    if (is_wrong_path(error))
      throw CheckpointError(std::string("--ckpt_path: ") + error.what(), message_code_of(error));
    throw;
  }
  return {.paths = {path}};
}

Candidates look(Filesystem& files, const Options& options, const std::string& own_run) {
  Candidates candidates;
  const std::string& asked = *options.ckpt_path;
  if (asked != kLast && asked != kBest && asked != kAuto) return look_at(files, asked, options);
  const std::vector<FoundCheckpoint> found =
      newest_checkpoints(files, options, asked == kAuto, candidates.damaged, own_run);
  for (const FoundCheckpoint& each : found) candidates.paths.push_back(each.path);
  if (asked == kBest && !found.empty()) candidates.paths = {best_of(found.front())};
  if (asked == kLast && !found.empty()) candidates.paths.resize(1);
  if (!candidates.paths.empty() || asked == kAuto) return candidates;
  refuse_candidates("--ckpt_path " + asked + ": there is no checkpoint below '" +
                        (own_run.empty() ? options.trainer.default_root_dir : own_run) + "'",
                    candidates.damaged, " (--ckpt_path auto begins from the start then)");
}

/// Whether `path` lies below `folder`, links followed.
bool is_below(const std::string& path, const std::string& folder) {
  std::error_code error;
  const std::filesystem::path inner = std::filesystem::weakly_canonical(path, error),
                              outer = std::filesystem::weakly_canonical(folder, error);
  if (error) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// The folder of the run that wrote a checkpoint, where that is still there; empty: it is not.
std::string run_folder(Filesystem& files, const std::string& path, const Manifest& manifest,
                       const Options& options) {
  const auto is_run = [&](const std::string& run) {
    return files.status(run + "/" + std::string(kRunLockFile)) || files.status(run + "/config.yaml");
  };
  // A run's tree may have been moved or copied, and goes on where it lies now.
  const std::string folder = parent_directory(path), beside = parent_directory(folder);
  const bool in_run = last_part(folder) == "checkpoints" && chosen_checkpoint_folder(options).empty();
  if (in_run && is_run(beside)) return beside;
  // A folder that the user chose says nothing about the run. The manifest does, but the run writes where it
  // says, and the checkpoint may come from somebody else.
  const bool is_believed =
      !manifest.log_dir.empty() && is_below(manifest.log_dir, options.trainer.default_root_dir);
  return is_believed && is_run(manifest.log_dir) ? manifest.log_dir : std::string();
}

/// Throws CheckpointError, on all ranks, where it is not whole. `meanwhile`: see `choose_checkpoint`.
Manifest read_verified(World& world, Filesystem& files, const std::string& path, const Meanwhile& meanwhile) {
  Manifest manifest;
  run_agreed(world, [&] {
    manifest = read_manifest(files, path);
    verify_files_during(files, path, manifest, world.rank(), world.size(), [&] {
      if (meanwhile) meanwhile(path, manifest);
    });
  });
  return manifest;
}

/// The manifest and the state of each rank say where the training stood, and were written together.
void require_place_of_manifest(const StateDict& state, const Manifest& manifest) {
  const StateDict& loop = state.section("loop");
  if (loop.integer("epoch") == manifest.epoch && loop.integer("batch") == manifest.batch &&
      loop.integer("global_step") == manifest.global_step)
    return;
  throw StateError("its manifest stands at epoch " + std::to_string(manifest.epoch) + ", batch " +
                       std::to_string(manifest.batch) + ", step " + std::to_string(manifest.global_step) +
                       ", and its state elsewhere; use another checkpoint",
                   MessageCode::model_mismatch);
}

void require_same_model(const CheckpointReader& checkpoint, const Trainable& model) {
  const auto refuse = [&](const std::string& why) {
    throw CheckpointError(
        "the checkpoint '" + checkpoint.path() + "' is of another model: " + why +
            "; repeat the --model options of that run, or start a new run from its weights: "
            "--model.weights, with --model.weights_strict false if only some fit",
        MessageCode::model_mismatch);
  };
  std::map<std::string, const SafetensorsEntry*> saved = checkpoint.model();
  for (const NamedTensor& named : all_tensors(model)) {
    const auto found = saved.find(named.name);
    if (found == saved.end()) refuse("it lacks " + describe(named));
    const at::IntArrayRef shape(found->second->shape);
    if (shape != named.tensor.sizes())
      refuse(c10::str("this one has ", describe(named), ", and the saved one has the shape ", shape));
    saved.erase(found);
  }
  if (!saved.empty()) refuse("this one has no " + saved.begin()->first);
}

}  // namespace

std::vector<FoundCheckpoint> checkpoints_of_run(Filesystem& files, const std::string& run,
                                                const Options& options, std::vector<std::string>& damaged) {
  const std::string folder = chosen_checkpoint_folder(options);
  std::vector<FoundCheckpoint> found =
      usable_checkpoints(files, folder.empty() ? run + "/checkpoints" : folder, options, damaged);
  if (!folder.empty())
    std::erase_if(found, [&](const FoundCheckpoint& each) { return each.manifest.log_dir != run; });
  return found;
}

std::optional<ChosenCheckpoint> choose_checkpoint(World& world, Filesystem& files, const Options& options,
                                                  const Meanwhile& meanwhile, const std::string& own_run) {
  Candidates candidates;
  run_agreed(world, [&] {
    if (world.is_root()) candidates = look(files, options, own_run);
  });
  for (const std::string& message : candidates.damaged) log_warning(message);
  candidates = broadcast_value(world, candidates);
  const std::string& asked = *options.ckpt_path;
  const bool or_another = candidates.of_a_run || asked == kAuto;
  for (const std::string& path : candidates.paths) {
    try {
      Manifest manifest = read_verified(world, files, path, meanwhile);
      ChosenCheckpoint chosen{path, std::move(manifest)};
      if (world.is_root()) chosen.log_dir = run_folder(files, path, chosen.manifest, options);
      chosen.log_dir = world.broadcast(chosen.log_dir);
      chosen.in_place = !chosen.log_dir.empty() && (asked == kLast || asked == kAuto || candidates.of_a_run);
      return chosen;
    } catch (const AgreedError& error) {
      if (!or_another) throw;
      const bool is_last = path == candidates.paths.back();
      if (world.is_root())
        log_warning(std::string(error.what()) + (is_last ? "" : "; trying the one before it"));
    }
  }
  if (!candidates.paths.empty() || !candidates.damaged.empty()) {
    const std::string& searched = candidates.of_a_run ? asked
                                  : !own_run.empty()  ? own_run
                                                      : options.trainer.default_root_dir;
    throw AgreedError(ExitCode::refused, MessageCode::checkpoint_missing,
                      "--ckpt_path " + asked + ": no checkpoint below '" + searched +
                          "' is complete; to start a new run, move them away" +
                          (candidates.damaged.empty() ? "" : ": " + candidates.damaged.front()));
  }
  return std::nullopt;
}

std::optional<LoadedCheckpoint> load_checkpoint(World& world, Filesystem& files, const Options& options,
                                                const Trainable& model, const std::string& own_run) {
  if (!options.ckpt_path) return std::nullopt;
  StateDict state;
  std::exception_ptr refused;
  // Read while it is verified, and believed only then.
  const auto read = [&](const std::string& path, const Manifest& manifest) {
    refused = nullptr;
    try {
      CheckpointReader reader(files, path, manifest);
      require_same_model(reader, model);
      state = manifest.world_size == world.size() ? reader.state(world.rank()) : reshard_state(reader, world);
      require_place_of_manifest(state, manifest);
    } catch (const StateError& error) {
      refused = std::make_exception_ptr(
          CheckpointError("the checkpoint '" + path + "' cannot be used: " + error.what()));
    } catch (...) {
      refused = std::current_exception();
    }
  };
  std::optional<ChosenCheckpoint> chosen = choose_checkpoint(world, files, options, read, own_run);
  if (!chosen) {
    log_info("--ckpt_path auto: there is no checkpoint yet, so a new run starts");
    return std::nullopt;
  }
  run_agreed(world, [&] {
    if (refused) std::rethrow_exception(refused);
  });
  if (world.is_root()) {
    log_info("resuming from " + chosen->path + ": epoch " + std::to_string(chosen->manifest.epoch) +
             ", step " + std::to_string(chosen->manifest.global_step));
  }
  return LoadedCheckpoint{*std::move(chosen), std::move(state)};
}

void load_model_of_checkpoint(World& world, Filesystem& files, const Options& options, Trainable& model,
                              const std::string& own_run) {
  if (!options.ckpt_path) return;
  const std::optional<ChosenCheckpoint> chosen = choose_checkpoint(world, files, options, {}, own_run);
  if (!chosen)
    throw AgreedError(ExitCode::refused, MessageCode::checkpoint_missing,
                      "--ckpt_path auto: there is no checkpoint to evaluate; train one first");
  if (world.is_root()) log_info("the model of " + chosen->path);
  run_agreed(world, [&] {
    const CheckpointReader reader(files, chosen->path, chosen->manifest);
    require_same_model(reader, model);
    reader.read_model(pieces_here(model));
  });
}

}  // namespace cxtrain
