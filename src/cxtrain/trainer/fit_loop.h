#pragma once

#include <deque>
#include <optional>

#include "cxtrain/strategy/step.h"
#include "cxtrain/trainer/checkpoint_manager.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/model_checks.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// The training loop, from `context.state` to the limits: Lightning's hooks in Lightning's order, and the
/// same for every strategy. Collective.
class FitLoop final : private StepPlan, private StepObserver {
 public:
  /// What a fit has that a trial, which nobody resumes, lacks.
  struct OfFit {
    CheckpointManager* checkpoints = nullptr;  ///< outlives the loop
    bool resumed = false;                      ///< the context has the place of a saved training
  };
  /// All references outlive the loop.
  FitLoop(TrainContext& context, FitData& data, Optimization& optimization, const OfFit& of_fit);

  /// A whole fit: the sanity check and the training, between the hooks of a fit.
  void fit();
  /// The training alone, from `on_train_start` to `on_train_end` (trials of a tuner).
  void train();

 private:
  void train_to_the_end();
  void before_zero_grad() override {
    context_.hooks.call(hooks::on_before_zero_grad);
    optimization_.expect_gradients();
  }
  void before_backward(const at::Tensor& loss) override {
    if (!optimization_.is_manual()) begin_vote({.loss = true});  // backward takes a while
    context_.hooks.call(hooks::on_before_backward, loss);
  }
  void after_backward() override { context_.hooks.call(hooks::on_after_backward); }

  void sanity_check();
  void run_epoch();
  bool read_batch();
  void start_streams();
  void run_step();
  std::int64_t size() const override;
  const Batch& batch(std::int64_t i) override;
  const MicroStep* next() override;
  void end(StepOutput output) override;
  MicroStep micro_step();
  /// A batch, with facts that the loader has of the batch read last.
  struct ReadBatch {
    Batch batch = {};
    std::int64_t global_size = 0;
    int dataloader_idx = 0;
  };
  bool read_from_loader(ReadBatch& read);
  /// Returns the number, within the epoch, of the first batch of the current step.
  std::int64_t first_of_step() const {
    const std::int64_t idx = micro_ ? micro_->batch_idx : context_.state.batch;
    return idx / limits().accumulate * limits().accumulate;
  }
  void begin_batch();
  void end_batch();
  void after_step();
  void note_skip();
  void note_skips_elsewhere(const StepResult& of_all_ranks);
  std::int64_t samples_over_ranks();
  /// Whether a rank has no sample of the last batch.
  bool some_rank_is_empty() { return batch_.global_size < data_.train().shard().count; }
  void validate();
  void leave_validation(const StateDict& generators);
  std::optional<MetricStore::Values> run_validation(std::span<const std::int64_t> batches);
  bool validates() const {
    return !cannot_validate_ && FitLimits::total(limits().val_batches) != 0 &&
           (limits().val_every_batches != 0 || limits().val_every_seconds);
  }
  bool stays_finite() const { return context_.parts.options.trainer.terminate_on_nan; }
  bool validation_due() const;
  bool validation_time_is_up() const;
  /// Whether max_steps or max_epochs is reached.
  bool at_limit() const;
  bool done() const;
  void warn_of_nothing_left() const;
  /// Steps are whole: nothing is stopped or saved while gradients accumulate, which then would be lost.
  bool between_steps() const {
    const std::int64_t batch = context_.state.batch;
    return batch % limits().accumulate == 0 || batch == limits().train_batches;
  }
  const FitLimits& limits() const { return data_.limits(); }
  void vote() { handle(context_.voting.vote(writes_checkpoint())); }
  void handle(const StepVote& vote);
  void begin_vote(const StepResult& result);
  bool writes_checkpoint() const { return checkpoints_ != nullptr && checkpoints_->writing(); }
  void save_if_wanted();
  void restore_position();
  void show_limits();
  std::int64_t samples_per_step() const { return data_.train().global_batch_size() * limits().accumulate; }

  TrainContext& context_;
  FitData& data_;
  Optimization& optimization_;
  CheckpointManager* checkpoints_;  ///< null in a trial
  bool resumed_;
  StepVote pending_;              ///< what all ranks voted for and the loop has not done yet
  double validated_at_ = 0;       ///< on the clock: the last validation, or the start of training
  bool cannot_validate_ = false;  ///< the model does not define validation_step
  ReadBatch batch_;
  std::deque<ReadBatch> ahead_;     ///< read before their turn; they follow `batch_`
  std::optional<MicroStep> micro_;  ///< in progress; `batch_` is its batch
  std::optional<LogScope> scope_;   ///< of the micro-batch in progress
  StepOutput output_;               ///< of the micro-batch in progress
  bool vote_to_begin_ = false;      ///< the step ends with this micro-batch, and its vote has not begun
  FiniteCheck finite_;
  bool skip_noted_ = false;
  bool streams_go_on_ = true;  ///< false: training reads streams, and those of all ranks have ended
};

}  // namespace cxtrain
