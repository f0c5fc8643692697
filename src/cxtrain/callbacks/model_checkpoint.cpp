#include "cxtrain/callbacks/model_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/log.h"
#include "cxtrain/callbacks/checkpoint_name.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/metrics/metric_store.h"

namespace cxtrain {
namespace {

constexpr double kRetrySeconds = 30;

bool same_folder(const std::string& a, const std::string& b) {
  std::error_code failed;
  const auto canonical = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(path, failed);
  };
  return a == b || (canonical(a) == canonical(b) && !failed);
}

/// What cannot be looked at counts as there: nothing is forgotten or overwritten because of a bad moment.
bool is_there(Run& run, const std::string& path) {
  try {
    return run.files().status(path).has_value();
  } catch (const FileError&) {
    return true;
  }
}

/// Whether somebody else holds the name under which this checkpoint is written. What cannot be looked at is
/// not: the save itself finds the fault, warns, and training goes on.
bool is_held_by_another(Run& run, const std::string& path) {
  try {
    return has_part_of_another_user(run.files(), path);
  } catch (const FileError&) {
    return false;
  }
}

[[noreturn]] void refuse_option(const char* name, const std::string& why, const std::string& hint = "") {
  throw ConfigError(std::string("checkpoint.") + name, why, hint);
}

/// Returns the arguments with their defaults. Throws ConfigError for values outside of their ranges, and for
/// values that exclude each other.
ModelCheckpoint::Args checked(ModelCheckpoint::Args args) {
  require_fields(args);
  if (args.filename.empty()) args.filename = ModelCheckpoint::Args().filename;
  if (args.monitor.empty() && args.save_top_k > 1) {
    refuse_option("save_top_k",
                  std::to_string(args.save_top_k) + " best checkpoints need a metric to compare",
                  "add --checkpoint.monitor val_loss");
  }
  const bool by_steps = args.every_n_train_steps > 0, by_time = args.train_time_interval.count() > 0;
  const bool by_epochs = args.every_n_epochs > 0;
  if (by_steps + by_time + by_epochs > 1) {
    refuse_option("every_n_train_steps",
                  "every_n_train_steps, train_time_interval and every_n_epochs exclude each other",
                  "give one of them");
  }
  if (args.every_n_epochs < 0) args.every_n_epochs = by_steps || by_time ? 0 : 1;
  check_name_template(args.filename);
  return args;
}

}  // namespace

ModelCheckpoint::ModelCheckpoint(Args args)
    : args_(checked(std::move(args))),
      policy_({.monitors = !args_.monitor.empty(),
               .mode = args_.mode,
               .save_top_k = args_.save_top_k,
               .save_last = args_.save_last,
               .every_n_train_steps = args_.every_n_train_steps,
               .every_n_epochs = args_.every_n_epochs}) {}

void ModelCheckpoint::setup(Run& run, Stage stage) {
  folder_.clear();
  if (stage != Stage::fit) return;
  folder_ = args_.dirpath;
  if (folder_.empty()) folder_ = run.log_dir().empty() ? "checkpoints" : run.log_dir() + "/checkpoints";
  // Another fit is another run.
  kept_ = {};
  due_.reset();
  planned_.reset();
  triggered_at_step_ = planned_at_step_ = -1;
  failed_ = clock_rang_ = missed_metric_ = false;
}

void ModelCheckpoint::on_train_start(Run& run) {
  next_by_clock_ = clock_.now() + args_.train_time_interval.count();
  // Of what a resumed run remembers, somebody may have removed some.
  std::vector<std::string> there;
  if (run.rank() == 0) {
    for (const std::string& path : kept_.paths()) {
      if (is_there(run, path)) there.push_back(path);
    }
  }
  there = broadcast_value(run.world(), there);
  const auto gone = [&](const std::string& path) { return std::ranges::find(there, path) == there.end(); };
  std::erase_if(kept_.best, [&](const auto& entry) { return gone(entry.first); });
  if (gone(kept_.last_path)) kept_.last_path.clear();
  if (gone(kept_.best_path)) kept_.best_path.clear();
}

void ModelCheckpoint::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  const Progress& progress = run.progress();
  const bool within_epoch = progress.num_batches < 0 || progress.batch_idx + 1 < progress.num_batches;
  const bool last = run.global_step() == progress.max_steps;  // the loop ends here, perhaps within an epoch
  if (policy_.due_after_step(run.global_step()) || (last && within_epoch))
    trigger(run, /*metrics_are_new=*/false);
  const bool by_clock = failed_ || args_.train_time_interval.count() > 0;
  if (!by_clock || run.rank() != 0 || clock_.now() < next_by_clock_) return;
  clock_rang_ = true;
  run.request_checkpoint();
}

void ModelCheckpoint::on_validation_end(Run& run) {
  if (run.progress().sanity_checking || saves_at_epoch_end(run)) return;
  if (policy_.due_after_epoch(run.current_epoch())) trigger(run, /*metrics_are_new=*/true);
}

void ModelCheckpoint::on_train_epoch_end(Run& run) {
  if (!saves_at_epoch_end(run) || !policy_.due_after_epoch(run.current_epoch())) return;
  const bool complete = run.progress().epoch_is_complete;
  // A stop within the epoch has saved this step before the metrics of the epoch were reset.
  if (!complete && planned_at_step_ == run.global_step() && !failed_) return;
  trigger(run, /*metrics_are_new=*/complete);
}

void ModelCheckpoint::trigger(Run& run, bool metrics_are_new) {
  if (run.global_step() == 0 || run.global_step() == triggered_at_step_) return;
  triggered_at_step_ = run.global_step();
  due_ = Due{run.current_epoch(), metrics_are_new};
  run.request_checkpoint(RequestedBy::all_ranks);
}

/// Rank 0's clock decides for all.
bool ModelCheckpoint::due_by_clock(Run& run) {
  if (args_.train_time_interval.count() <= 0 && !failed_) return false;
  const bool rang = broadcast_value(run.world(), clock_rang_);
  clock_rang_ = false;
  if (rang)
    next_by_clock_ = clock_.now() + std::max(args_.train_time_interval.count(), kRetrySeconds * failed_);
  return rang;
}

/// Whoever requests a save wants to resume from it: a checkpoint of weights only will not do.
std::optional<CheckpointPlan> ModelCheckpoint::plan_checkpoint(Run& run, const CheckpointOccasion& occasion) {
  const bool must_save = occasion.must_save && !args_.save_weights_only;
  if (due_by_clock(run) && !due_) due_ = Due{run.current_epoch(), false};
  const std::optional<Due> due = std::exchange(due_, std::nullopt);
  if (!due && !must_save) return std::nullopt;
  std::optional<double> value;
  if (due) value = args_.monitor.empty() ? 0 : monitored(run, due->metrics_are_new && !must_save);
  if (due && !value && run.rank() == 0 && !std::exchange(missed_metric_, true))
    log_warning("step " + std::to_string(run.global_step()) + " has no checkpoint among the best: `" +
                args_.monitor + "` (--checkpoint.monitor) has not been logged yet");
  std::optional<CheckpointPolicy::Decision> decision = policy_.decide(kept_, value, must_save);
  if (!decision) return std::nullopt;
  CheckpointPlan plan;
  plan.path = choose_path(run, due ? due->epoch : run.current_epoch(), decision->stays, occasion);
  plan.weights_only = args_.save_weights_only;
  if (args_.save_last) plan.link = "last.ckpt";
  plan.staging = args_.staging;
  planned_ = policy_.after(std::move(*decision), plan.path, value);
  plan.remove = evicted(kept_, *planned_);
  planned_at_step_ = run.global_step();
  return plan;
}

void ModelCheckpoint::on_checkpoint_written(bool saved) {
  failed_ = !saved;
  if (saved) {
    kept_ = std::move(*planned_);
  } else {
    next_by_clock_ = clock_.now() + kRetrySeconds;
  }
  planned_.reset();
}

/// The checkpoint that is under way counts as written: only then is this state read.
void ModelCheckpoint::on_save_checkpoint(StateDict& state) {
  const KeptCheckpoints& kept = planned_ ? *planned_ : kept_;
  StateDict& best = state.make_section("best_k_models");
  for (const auto& [path, value] : kept.best) best.set(path, value);
  state.set("monitor", args_.monitor);
  state.set("best_model_path", kept.best_path);
  state.set("last_model_path", kept.last_path);
  state.set("triggered_at_step", triggered_at_step_);
}

void ModelCheckpoint::on_load_checkpoint(const StateDict& state) {
  kept_ = {};
  triggered_at_step_ = state.integer("triggered_at_step");
  // What lies in the folder of another run is that run's. The same folder may have another name by now.
  // A checkpoint may come from somebody else: what it remembers is deleted later on, so it has to be a
  // checkpoint of this folder.
  const auto here = [&](const std::string& path) {
    const std::string name = std::filesystem::path(path).filename().string();
    return is_checkpoint_name(name) && same_folder(parent_directory(path), folder_) ? folder_ + "/" + name
                                                                                    : std::string();
  };
  for (const auto& [path, value] : state.section("best_k_models").values()) {
    if (const std::string found = here(path); !found.empty()) kept_.best[found] = std::get<double>(value);
  }
  kept_.best_path = here(state.text("best_model_path"));
  kept_.last_path = here(state.text("last_model_path"));
}

std::optional<double> ModelCheckpoint::monitored(Run& run, bool has_to_be_there) const {
  const std::optional<double> value = run.metrics().last_of_all_ranks(args_.monitor, run.world());
  if (!value && has_to_be_there)
    run.metrics().refuse_unlogged("checkpoints follow `" + args_.monitor + "` (--checkpoint.monitor)");
  if (!value || !std::isnan(*value)) return value;
  const double infinity = std::numeric_limits<double>::infinity();
  return args_.mode == MonitorMode::min ? infinity : -infinity;  // the worst there is
}

/// Of rank 0: the values in a name are its own.
std::string ModelCheckpoint::checkpoint_name(Run& run, std::int64_t epoch) const {
  std::map<std::string, double> values;
  for (const auto& [metric, value] : run.metrics().all()) {
    values[metric] = value;
    // A metric that is logged in both ways has the value of the epoch under its own name, too.
    constexpr std::string_view kOfEpoch = "_epoch";
    if (metric.ends_with(kOfEpoch))
      values.try_emplace(metric.substr(0, metric.size() - kOfEpoch.size()), value);
  }
  values["epoch"] = static_cast<double>(epoch);
  values["step"] = static_cast<double>(run.global_step());
  return folder_ + "/" + cxtrain::checkpoint_name(args_.filename, values, args_.auto_insert_metric_name);
}

/// Returns a path on which no checkpoint is overwritten that stays, that somebody else has left there, or
/// that another callback writes at this step. Collective.
std::string ModelCheckpoint::choose_path(Run& run, std::int64_t epoch, const KeptCheckpoints& stays,
                                         const CheckpointOccasion& occasion) const {
  std::string path;
  if (run.rank() == 0) {
    const std::string name = checkpoint_name(run, epoch);
    path = name + ".ckpt";
    const std::set<std::string> own = kept_.paths();
    const auto taken = [&] {
      return stays.best.contains(path) || (!own.contains(path) && is_there(run, path)) ||
             is_held_by_another(run, path) || occasion.paths.contains(path);
    };
    constexpr int kMaxVersions = 10000;  // or a folder that cannot be looked at would be looked at for ever
    for (int version = 1; version < kMaxVersions && taken(); ++version)
      path = name + "-v" + std::to_string(version) + ".ckpt";
  }
  return run.world().broadcast(std::move(path));
}

std::optional<double> ModelCheckpoint::best_model_score() const {
  const auto best = kept_.best.find(kept_.best_path);
  if (args_.monitor.empty() || best == kept_.best.end()) return std::nullopt;
  return best->second;
}

std::string ModelCheckpoint::state_key() const {
  return "ModelCheckpoint{monitor: " + args_.monitor + ", mode: " + std::string(word_of(args_.mode)) +
         ", every_n_train_steps: " + std::to_string(args_.every_n_train_steps) +
         ", every_n_epochs: " + std::to_string(args_.every_n_epochs) + "}";
}

}  // namespace cxtrain
