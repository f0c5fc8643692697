#pragma once

#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/model_checks.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/run.h"
#include "cxtrain/trainer/training_state.h"

namespace cxtrain {

/// The training loop, from `run.state` to the limits: Lightning's hooks in Lightning's order, and the same
/// for every strategy. Collective.
class FitLoop final : private StepObserver {
 public:
  /// All references outlive the loop. `state`: what checkpoints are made of, and what was loaded of one; null
  /// for a trial, of which nobody keeps any.
  FitLoop(Run& run, FitData& data, Optimization& optimization, TrainingState* state = nullptr);

  /// A whole fit: the sanity check and the training, between the hooks of a fit.
  void fit();
  /// The training alone, from `on_train_start` to `on_train_end` (trials of a tuner).
  void train();

 private:
  void train_to_the_end();
  void before_zero_grad() override;
  void before_backward(const at::Tensor& loss) override;
  void after_backward() override;

  void sanity_check();
  void run_epoch();
  void run_batch(Batch& batch);
  MicroStep micro_step(const Batch& batch);
  void after_step(bool stepped);
  void note_skips_elsewhere(std::uint64_t contributions_of_all_ranks);
  void note_contribution(const MicroStep& step, const at::Tensor& loss);
  std::int64_t samples_over_ranks();
  void validate();
  void leave_validation(const StateDict& generators);
  std::optional<MetricStore::Values> run_validation(std::int64_t batches);
  bool validates() const;
  bool validation_due() const;
  bool validation_time_is_up() const;
  bool done() const;
  void warn_of_nothing_left() const;
  bool between_steps() const;
  const FitLimits& limits() const { return data_.limits(); }
  void agree();
  void heed(std::uint64_t wishes);
  void tell_contribution(Optimization::Contribution contribution);
  void make_checkpoint_if_wanted();
  void finish_checkpoint();
  void take_place();
  std::int64_t samples_per_step() const;

  Run& run_;
  FitData& data_;
  Optimization& optimization_;
  TrainingState* state_;
  bool stopping_ = false;
  bool checkpoint_wanted_ = false;
  bool validation_wanted_ = false;  ///< by rank 0's clock, and all ranks know
  double validated_at_ = 0;         ///< on the clock; the start of training, where nothing has been validated
  std::uint64_t ending_ = 0;        ///< flags of `Run::kEnds`: the run ends once the checkpoint is made
  bool cannot_validate_ = false;    ///< the model does not define validation_step
  Optimization::Contribution contribution_ = Optimization::Contribution::none;  ///< to the step, so far
  bool contribution_untold_ = false;
  FiniteCheck finite_;
  bool skip_noted_ = false;
};

}  // namespace cxtrain
