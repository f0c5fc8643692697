#pragma once

#include <string>
#include <vector>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/checkpoint/manifest.h"
#include "cxtrain/trainer/checkpointer.h"
#include "cxtrain/trainer/step_vote.h"
#include "cxtrain/trainer/train_context.h"
#include "cxtrain/trainer/training_state.h"

namespace cxtrain {

/// The checkpoints of a fit: asks the callbacks which to write, and writes them while training goes on.
/// Restores the state of a checkpoint. All methods are collective, except `writing`, and called between two
/// steps.
class CheckpointManager {
 public:
  /// All references outlive it; the context has its callbacks. `config`: text of `config.yaml`. `data`: on
  /// rank 0 the fingerprint of the training data.
  CheckpointManager(TrainContext& context, FitData& loaders, Optimization& optimization,
                    const std::string& config, std::string data);

  /// Takes over a loaded state, before the hooks of the beginning (`TrainingState::load`).
  void restore(StateDict state, const RunFolder& from) { state_.load(std::move(state), from); }
  /// Restores what the hooks of the beginning may have changed.
  void reapply_loaded_state() { state_.reapply_loaded_state(); }

  /// Gives the state to the callbacks, and begins to write the checkpoints that they plan. If the run ends by
  /// `vote`, waits until the checkpoints are complete. Returns whether a rank has seen this state saved by
  /// then.
  bool save(const StepVote& vote);
  /// Whether this rank still writes its part of a checkpoint.
  bool writing() const { return writer_.busy(); }
  /// For when no rank is writing: the next stage of the checkpoint under way.
  void proceed() { note(writer_.proceed()); }
  /// Waits until no checkpoint is under way.
  void finish() { note(writer_.finish()); }

 private:
  /// A checkpoint that a callback planned.
  struct Planned {
    Callback* callback = nullptr;
    CheckpointPlan plan;
  };

  std::vector<Planned> plan(const StepVote& vote);
  void write(const StateDict& state, const Planned& planned);
  void note(std::optional<bool> complete);
  Manifest manifest() const;

  TrainContext& context_;
  TrainingState state_;
  Checkpointer writer_;
  const std::string& config_;
  std::string data_;
  Planned under_way_;
};

}  // namespace cxtrain
