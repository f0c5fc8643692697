#include "cxtrain/callbacks/model_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/log.h"
#include "cxtrain/callbacks/checkpoint_name.h"
#include "cxtrain/callbacks/monitored_metric.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"

namespace cxtrain {
namespace {

constexpr double kRetrySeconds = 30;

std::set<std::string> paths_of(const ModelCheckpoint::Kept& kept) {
  std::set<std::string> paths;
  for (const auto& [path, value] : kept.best) paths.insert(path);
  if (!kept.last_path.empty()) paths.insert(kept.last_path);
  return paths;
}

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

}  // namespace

ModelCheckpoint::ModelCheckpoint(Args args) : args_(std::move(args)) {
  if (args_.filename.empty()) args_.filename = Args().filename;
  if (args_.save_top_k < -1)
    refuse_option("save_top_k",
                  "must be -1 (all), 0 (none) or a count, found " + std::to_string(args_.save_top_k));
  if (args_.monitor.empty() && args_.save_top_k > 1) {
    refuse_option("save_top_k",
                  std::to_string(args_.save_top_k) + " best checkpoints need a metric to compare",
                  "add --checkpoint.monitor val_loss");
  }
  const bool by_steps = args_.every_n_train_steps > 0, by_time = args_.train_time_interval.count() > 0;
  const bool by_epochs = args_.every_n_epochs > 0;
  if (by_steps + by_time + by_epochs > 1) {
    refuse_option("every_n_train_steps",
                  "every_n_train_steps, train_time_interval and every_n_epochs exclude each other",
                  "give one of them");
  }
  if (args_.every_n_epochs < 0) args_.every_n_epochs = by_steps || by_time ? 0 : 1;
  check_name_template(args_.filename);
}

void ModelCheckpoint::setup(Run& run, std::string_view stage) {
  run_ = stage == "fit" ? &run : nullptr;
  if (run_ == nullptr) return;
  // Another fit is another run.
  kept_ = {};
  due_.reset();
  planned_.reset();
  triggered_at_step_ = -1;
  failed_ = clock_rang_ = false;
}

void ModelCheckpoint::on_train_start(Run& run) {
  next_by_clock_ = clock_.now() + args_.train_time_interval.count();
  // Of what a resumed run remembers, somebody may have removed some.
  std::string there;
  if (run.rank() == 0) {
    for (const std::string& path : paths_of(kept_)) {
      if (is_there(run, path)) there += path + '\n';
    }
  }
  there = '\n' + run.of_rank_zero(std::move(there));
  const auto gone = [&](const std::string& path) {
    return there.find('\n' + path + '\n') == std::string::npos;
  };
  std::erase_if(kept_.best, [&](const auto& entry) { return gone(entry.first); });
  if (gone(kept_.last_path)) kept_.last_path.clear();
  if (gone(kept_.best_path)) kept_.best_path.clear();
}

void ModelCheckpoint::on_train_batch_end(Run& run, const at::Tensor&, const Batch&, std::int64_t) {
  const std::int64_t every = args_.every_n_train_steps;
  const bool last = run.global_step() == run.max_steps();  // the loop ends here, perhaps within an epoch
  if ((every > 0 && run.global_step() % every == 0) || (last && within_epoch(run)))
    trigger(run, /*metrics_are_new=*/false);
  const bool by_clock = failed_ || args_.train_time_interval.count() > 0;
  if (!by_clock || run.rank() != 0 || clock_.now() < next_by_clock_) return;
  clock_rang_ = true;
  run.request_checkpoint();
}

bool ModelCheckpoint::within_epoch(const Run& run) const { return run.batch_idx() + 1 < run.num_batches(); }

bool ModelCheckpoint::due_by_epoch(const Run& run) const {
  const std::int64_t every = args_.every_n_epochs;
  return every > 0 && (run.current_epoch() + 1) % every == 0;
}

void ModelCheckpoint::on_validation_end(Run& run) {
  const bool at_epoch_end = args_.save_on_train_epoch_end.value_or(run.validates_at_epoch_end_only());
  if (!run.sanity_checking() && !at_epoch_end && due_by_epoch(run)) trigger(run, /*metrics_are_new=*/true);
}

void ModelCheckpoint::on_train_epoch_end(Run& run) {
  const bool at_epoch_end = args_.save_on_train_epoch_end.value_or(run.validates_at_epoch_end_only());
  if (at_epoch_end && due_by_epoch(run)) trigger(run, /*metrics_are_new=*/true);
}

void ModelCheckpoint::trigger(Run& run, bool metrics_are_new) {
  if (run.global_step() == 0 || run.global_step() == triggered_at_step_) return;
  triggered_at_step_ = run.global_step();
  due_ = Due{run.current_epoch(), metrics_are_new};
  run.request_checkpoint();
}

/// Rank 0's clock decides for all.
bool ModelCheckpoint::due_by_clock(Run& run) {
  if (args_.train_time_interval.count() <= 0 && !failed_) return false;
  const bool rang = run.of_rank_zero(clock_rang_ ? "yes" : "no") == "yes";
  clock_rang_ = false;
  if (rang)
    next_by_clock_ = clock_.now() + std::max(args_.train_time_interval.count(), kRetrySeconds * failed_);
  return rang;
}

void ModelCheckpoint::on_save_checkpoint(StateDict& state) {
  planned_.reset();
  if (run_ != nullptr) {
    const bool rang = due_by_clock(*run_);
    if (rang && !due_) due_ = Due{run_->current_epoch(), false};
    // Who asks for a save wants to go on from it.
    const bool asked_for = !args_.save_weights_only && run_->take_save_request();
    if (due_ || asked_for) plan_save(*run_, asked_for);
  }
  due_.reset();
  const Kept& kept = planned_ ? planned_->kept : kept_;
  StateDict& best = state.make_section("best_k_models");
  for (const auto& [path, value] : kept.best) best.set(path, value);
  state.set("best_model_path", kept.best_path);
  state.set("last_model_path", kept.last_path);
  state.set("triggered_at_step", triggered_at_step_);
}

void ModelCheckpoint::on_load_checkpoint(const StateDict& state) {
  kept_ = {};
  triggered_at_step_ = state.integer("triggered_at_step");
  // What lies in the folder of another run is that run's. The same folder may have another name by now.
  const std::string own = run_ != nullptr ? folder(*run_) : std::string();
  // A checkpoint may come from somebody else: what it remembers is deleted later on, so it has to be a
  // checkpoint of this folder.
  const auto here = [&](const std::string& path) {
    const std::string name = std::filesystem::path(path).filename().string();
    return is_checkpoint_name(name) && same_folder(parent_directory(path), own) ? own + "/" + name
                                                                                : std::string();
  };
  for (const auto& [path, value] : state.section("best_k_models").values()) {
    if (const std::string found = here(path); !found.empty()) kept_.best[found] = std::get<double>(value);
  }
  kept_.best_path = here(state.text("best_model_path"));
  kept_.last_path = here(state.text("last_model_path"));
}

void ModelCheckpoint::on_checkpoint(Run& run, const StateDict& state) {
  if (!planned_) return;
  SaveRequest request{.path = planned_->path,
                      .weights_only = args_.save_weights_only,
                      .remove = planned_->remove,
                      .link = args_.save_last ? "last.ckpt" : ""};
  request.then = [this](bool saved) {
    failed_ = !saved;
    if (saved) {
      kept_ = planned_->kept;
    } else {
      next_by_clock_ = clock_.now() + kRetrySeconds;
    }
    planned_.reset();
  };
  run.save_checkpoint(state, std::move(request));
}

/// Decides whether a checkpoint is written now, and which ones it replaces; the same on all ranks.
void ModelCheckpoint::plan_save(Run& run, bool asked_for) {
  const std::int64_t epoch = due_ ? due_->epoch : run.current_epoch();
  Plan plan;
  plan.kept = kept_;
  const std::optional<double> value =
      due_ ? monitored(run, due_->metrics_are_new && !asked_for) : std::nullopt;
  const bool among_best = due_ && args_.save_top_k != 0 && (args_.monitor.empty() || value) &&
                          makes_room(plan.kept, value.value_or(0));
  if (!among_best && !args_.save_last && !asked_for) return;
  plan.path = choose_path(run, epoch, plan.kept);
  if (among_best) {
    plan.kept.best[plan.path] = value.value_or(0);
    plan.kept.best_path = args_.monitor.empty() ? plan.path : best_of(plan.kept);
  }
  plan.kept.last_path = plan.path;
  const std::set<std::string> before = paths_of(kept_), after = paths_of(plan.kept);
  std::set_difference(before.begin(), before.end(), after.begin(), after.end(),
                      std::back_inserter(plan.remove));
  planned_ = std::move(plan);
}

std::optional<double> ModelCheckpoint::monitored(Run& run, bool has_to_be_there) {
  if (args_.monitor.empty()) return std::nullopt;
  const std::optional<double> value = run.metric_of_all_ranks(args_.monitor);
  if (!value && has_to_be_there)
    refuse_unlogged_metric(run, "checkpoints follow `" + args_.monitor + "` (--checkpoint.monitor)");
  if (!value || !std::isnan(*value)) return value;
  const double infinity = std::numeric_limits<double>::infinity();
  return args_.mode == MonitorMode::min ? infinity : -infinity;  // the worst there is
}

bool ModelCheckpoint::better(double a, double b) const {
  return args_.mode == MonitorMode::min ? a < b : a > b;
}

/// Whether a checkpoint of this value is one of the best; then one less is among them where they are enough.
bool ModelCheckpoint::makes_room(Kept& kept, double value) const {
  if (args_.save_top_k == -1 || std::ssize(kept.best) < args_.save_top_k) return true;
  if (args_.monitor.empty()) {
    kept.best.clear();
    return true;
  }
  const auto worst =
      std::max_element(kept.best.begin(), kept.best.end(),
                       [this](const auto& a, const auto& b) { return better(a.second, b.second); });
  if (!better(value, worst->second)) return false;
  kept.best.erase(worst);
  return true;
}

std::string ModelCheckpoint::best_of(const Kept& kept) const {
  return std::min_element(kept.best.begin(), kept.best.end(),
                          [this](const auto& a, const auto& b) { return better(a.second, b.second); })
      ->first;
}

std::string ModelCheckpoint::folder(const Run& run) const {
  if (!args_.dirpath.empty()) return args_.dirpath;
  return run.log_dir().empty() ? "checkpoints" : run.log_dir() + "/checkpoints";
}

/// Neither a checkpoint that stays nor one that somebody else has left there, or writes at this step, is
/// overwritten.
std::string ModelCheckpoint::choose_path(Run& run, std::int64_t epoch, const Kept& stays) const {
  std::string path;
  if (run.rank() == 0) {
    std::map<std::string, double> values;
    for (const std::string& name : run.metric_names()) {
      if (const auto value = run.metric(name)) values[name] = *value;
    }
    values["epoch"] = static_cast<double>(epoch);
    values["step"] = static_cast<double>(run.global_step());
    const std::string name =
        folder(run) + "/" + checkpoint_name(args_.filename, values, args_.auto_insert_metric_name);
    path = name + ".ckpt";
    const std::set<std::string> own = paths_of(kept_);
    const auto taken = [&] {
      return stays.best.contains(path) || (!own.contains(path) && is_there(run, path)) ||
             is_held_by_another(run, path) || !run.reserve_path(path);
    };
    constexpr int kMost = 10000;  // or a folder that cannot be looked at would be looked at for ever
    for (int version = 1; version < kMost && taken(); ++version)
      path = name + "-v" + std::to_string(version) + ".ckpt";
  }
  return run.of_rank_zero(std::move(path));
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
