#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/checkpoint/background_task.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/checkpoint/manifest.h"
#include "cxtrain/checkpoint/staging.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/strategy/trainable.h"

namespace cxtrain {

/// Writes checkpoints while training goes on. `begin` copies what this rank writes; a thread brings the copy
/// to the disk. Once no rank writes any more, which the ranks learn at the end of a step, another thread of
/// rank 0 makes the checkpoint complete. One checkpoint is under way at a time.
///
/// Every rank has one. Its methods are collective, and called by the thread of the loop between two steps.
class Checkpointer {
 public:
  struct Parts {
    World& world;
    Filesystem& files;
    const Trainable& model;
    Strategy* strategy;  ///< which may have parts of the model on other ranks; null: none does
    std::set<std::string> of_each_rank;  ///< sections of the state in which ranks remember different things
  };
  explicit Checkpointer(Parts parts) : parts_(std::move(parts)) {}

  /// Begins to write a checkpoint of this state, whose tensors may change afterwards. None is under way.
  /// `manifest`: all of it but `state` and `files`. Errors are logged. Returns false if the checkpoint cannot
  /// be begun; then nothing is under way.
  bool begin(const StateDict& state, CheckpointPlan plan, Manifest manifest);

  /// Whether a checkpoint is under way; the same on all ranks.
  bool under_way() const { return stage_ != Stage::idle; }
  /// Whether this rank still works on it. Not collective.
  bool busy() const { return task_.busy(); }
  /// For when no rank is busy: the next stage of what is under way. Returns, at the end of the last stage,
  /// whether the checkpoint is complete.
  std::optional<bool> proceed();
  /// Proceeds until nothing is under way. Returns as `proceed` does.
  std::optional<bool> finish();

  /// Seconds that the last checkpoint took this rank: copying, writing and, on rank 0, publishing.
  double last_seconds() const { return last_seconds_; }

 private:
  enum class Stage { idle, writing, publishing };

  /// What the strategy has shown for the checkpoint.
  enum class Tensors { of_the_model, copies };
  Tensors stage(const StateDict& state);
  struct Whole;
  Whole whole_tensors() const;
  void write_in_rounds();
  void write_round(bool last, const std::function<bool()>& go_on);
  void publish();
  bool end(const std::string& error);
  void warn_of_failure(const std::string& message);
  void log_saved() const;

  Parts parts_;
  Stage stage_ = Stage::idle;
  CheckpointPlan plan_;
  Manifest manifest_;
  std::optional<std::string> index_;  ///< of a model in several files, on rank 0
  Staging staging_;
  std::optional<CheckpointFilesWriter> writer_;  ///< of this rank's files
  std::vector<CheckpointFile> written_;          ///< by this rank's task
  BackgroundTask task_;
  SteadyClock clock_;
  double stalled_ = 0, last_seconds_ = 0;
  double next_warning_ = std::numeric_limits<double>::lowest();  ///< on the clock
};

}  // namespace cxtrain
