#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/callbacks/checkpoint_policy.h"
#include "cxtrain/config/field.h"
#include "cxtrain/config/values.h"

namespace cxtrain {

/// Writes checkpoints during training and keeps the best: Lightning's ModelCheckpoint. All ranks agree on
/// each checkpoint to write and to remove.
///
/// A checkpoint is removed only after a later checkpoint is complete. The newest checkpoint is kept besides
/// the best with `save_last`, and if the run was stopped.
class ModelCheckpoint final : public Callback {
 public:
  struct Args {
    std::string dirpath = {};                 ///< empty: `checkpoints` in the run's folder
    std::string filename = "{epoch}-{step}";  ///< "{val_loss:.2f}" is a metric's value
    std::string monitor = {};  ///< a metric; empty: none, and the newest checkpoint is the best
    MonitorMode mode = MonitorMode::min;
    std::int64_t save_top_k = 1;           ///< checkpoints to keep; -1: all; 0: none
    bool save_last = false;                ///< keep the newest, too, with a link `last.ckpt` to it
    std::int64_t every_n_train_steps = 0;  ///< 0: not by steps
    std::int64_t every_n_epochs = -1;      ///< -1: 1 unless steps or a time are given
    std::chrono::duration<double> train_time_interval{0};  ///< 0: not by time
    /// True: save at the end of each epoch. False: save at the end of each validation. Absent: at the end of
    /// the epoch if no validation runs anywhere else.
    std::optional<bool> save_on_train_epoch_end = {};
    bool save_weights_only = false;
    bool auto_insert_metric_name = true;  ///< "{epoch}" becomes "epoch=3", not "3"
    std::int64_t staging = 0;             ///< `CheckpointPlan::staging`

    void fields(auto&& field) {
      field("dirpath", dirpath, "the folder; default: checkpoints in the run's folder");
      field("filename", filename, "with {metric:.2f} for values");
      field("monitor", monitor, "metric by which checkpoints are compared; default: the newest is the best");
      field("mode", mode, "which value is the best");
      field("save_top_k", save_top_k, "how many of the best are kept; -1: all", Range::at_least(-1));
      field("save_last", save_last, "keep the newest as well, and a link last.ckpt to it");
      field("every_n_train_steps", every_n_train_steps, "save after every N steps; 0: not by steps",
            Range::at_least(0));
      field("every_n_epochs", every_n_epochs,
            "save after every N epochs; -1: every epoch, or not by epochs if steps or a time are given",
            Range::at_least(-1));
      field("train_time_interval", train_time_interval, "save after this time: DD:HH:MM:SS, or seconds");
      field("save_on_train_epoch_end", save_on_train_epoch_end,
            "at the end of each epoch, not of each validation");
      field("save_weights_only", save_weights_only, "the model, and nothing to resume from");
      field("auto_insert_metric_name", auto_insert_metric_name, "'epoch=3' in names, not '3'");
      field("staging", staging,
            "bytes of memory for the copy of a rank's files; a rank with larger files writes in rounds, and "
            "training waits for all rounds but the last; 0: no limit",
            Range::at_least(0));
    }
  };
  /// Throws ConfigError for values outside of their ranges, and for values that exclude each other.
  explicit ModelCheckpoint(Args args);

  bool monitors() const override { return true; }
  void setup(Run& run, Stage stage) override;
  void on_train_start(Run& run) override;
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_validation_end(Run& run) override;
  void on_train_epoch_end(Run& run) override;

  std::optional<CheckpointPlan> plan_checkpoint(Run& run, const CheckpointOccasion& occasion) override;
  void on_checkpoint_written(bool saved) override;
  void on_save_checkpoint(StateDict& state) override;
  void on_load_checkpoint(const StateDict& state) override;
  std::string state_key() const override;

  /// Folders of checkpoints; empty: no checkpoint so far.
  const std::string& best_model_path() const { return kept_.best_path; }
  const std::string& last_model_path() const { return kept_.last_path; }
  /// Returns the monitored metric's value of the best checkpoint; absent without a checkpoint, or if nothing
  /// is monitored.
  std::optional<double> best_model_score() const;

 private:
  /// A checkpoint to make at the end of the step.
  struct Due {
    std::int64_t epoch;    ///< for its name: at the end of an epoch, that epoch
    bool metrics_are_new;  ///< a validation or an epoch has just ended: the monitored metric must exist
  };

  void trigger(Run& run, bool metrics_are_new);
  bool saves_at_epoch_end(const Run& run) const {
    return args_.save_on_train_epoch_end.value_or(run.progress().validates_at_epoch_end_only);
  }
  bool due_by_clock(Run& run);
  std::optional<double> monitored(Run& run, bool has_to_be_there) const;
  std::string choose_path(Run& run, std::int64_t epoch, const KeptCheckpoints& stays,
                          const CheckpointOccasion& occasion) const;
  std::string checkpoint_name(Run& run, std::int64_t epoch) const;

  Args args_;
  CheckpointPolicy policy_;
  std::string folder_;  ///< of the current fit's checkpoints; empty outside of a fit
  SteadyClock clock_;
  double next_by_clock_ = 0;    ///< rank 0: time of the next save by the clock, or of the next attempt
  bool clock_rang_ = false;     ///< rank 0: a save by the clock is due
  bool missed_metric_ = false;  ///< a warning of an unlogged metric has been logged
  std::int64_t triggered_at_step_ = -1;  ///< at most one checkpoint per step
  std::int64_t planned_at_step_ = -1;    ///< of the last checkpoint
  std::optional<Due> due_;
  KeptCheckpoints kept_;
  std::optional<KeptCheckpoints> planned_;  ///< once the checkpoint under way is written
  bool failed_ = false;                     ///< the last attempt failed
};

}  // namespace cxtrain
