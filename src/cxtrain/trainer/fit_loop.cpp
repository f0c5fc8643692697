#include "cxtrain/trainer/fit_loop.h"

#include <algorithm>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/base/process.h"
#include "cxtrain/base/stop_signals.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/trainer/evaluation_loop.h"

namespace cxtrain {

FitLoop::FitLoop(TrainContext& context, FitData& data, Optimization& optimization, const OfFit& of_fit)
    : context_(context),
      data_(data),
      optimization_(optimization),
      checkpoints_(of_fit.checkpoints),
      resumed_(of_fit.resumed) {
  if (resumed_) run_agreed(context_.parts.world, [this] { restore_position(); });
  show_limits();
}

/// Shows callbacks the limits, which change with reloaded loaders, and if the model cannot validate.
void FitLoop::show_limits() {
  Progress& progress = context_.progress;
  progress.accumulate = limits().accumulate;
  progress.samples_per_step = samples_per_step();
  progress.max_epochs = limits().max_epochs;
  progress.max_steps = limits().max_steps;
  progress.validates_at_epoch_end_only = cannot_validate_ || limits().validates_at_epoch_end_only();
}

void FitLoop::fit() {
  context_.hooks.call(hooks::on_fit_start);
  sanity_check();
  train();
  context_.hooks.call(hooks::on_fit_end);
}

void FitLoop::train() {
  try {
    train_to_the_end();
  } catch (const Interrupted&) {
    // On all ranks alike: the checkpoint under way is complete soon.
    if (checkpoints_ != nullptr) checkpoints_->finish();
    throw;
  }
}

void FitLoop::train_to_the_end() {
  context_.training_clock.restart();
  validated_at_ = context_.clock.now();
  context_.hooks.call(hooks::on_train_start);
  if (checkpoints_ != nullptr) checkpoints_->reapply_loaded_state();
  vote();
  save_if_wanted();
  if (resumed_ && at_limit() && !context_.state.validation_due) warn_of_nothing_left();
  while (!done() || context_.state.validation_due) run_epoch();
  vote();  // on what the last step's hooks have asked for
  save_if_wanted();
  if (checkpoints_ != nullptr) checkpoints_->finish();
  optimization_.unite();
  context_.hooks.call(hooks::on_train_end);
}

/// A few validation batches before the first step find mistakes in validation_step before an epoch is spent.
/// The training draws the numbers that it would draw without them.
void FitLoop::sanity_check() {
  if (resumed_) return;
  if (cannot_validate_ || FitLimits::total(limits().sanity_batches) == 0) return;
  const PhaseScope phase(Phase::validation);
  context_.progress.sanity_checking = true;
  context_.hooks.call(hooks::on_sanity_check_start);
  StateDict generators;
  context_.parts.generators.save(generators);
  run_validation(limits().sanity_batches);
  context_.parts.generators.load(generators);
  context_.hooks.call(hooks::on_sanity_check_end);
  context_.progress.sanity_checking = false;
  context_.metrics.clear();
}

/// Batches that the saved state counts are batches of its ranks; its steps are the same here where as many
/// samples go into each.
void FitLoop::restore_position() {
  TrainState& state = context_.state;
  const Progress& saved = context_.progress;
  if (state.batch == 0) return;
  const bool stream = !limits().length_known && saved.num_batches < 0;
  const std::int64_t saved_steps =
      stream ? limits().steps_per_epoch() : divide_up(saved.num_batches, saved.accumulate);
  if (saved.samples_per_step != samples_per_step() || saved_steps != limits().steps_per_epoch()) {
    const auto describe = [](std::int64_t steps, std::int64_t samples) {
      return std::to_string(steps) + " steps of " + std::to_string(samples) + " samples";
    };
    throw StateError(
        "the saved state is in the middle of an epoch of " + describe(saved_steps, saved.samples_per_step) +
            ", and this run has an epoch of " + describe(limits().steps_per_epoch(), samples_per_step()) +
            "; use the same data, and keep --data.batch_size x ranks x --accumulate_grad_batches = " +
            std::to_string(saved.samples_per_step),
        MessageCode::model_mismatch);
  }
  const std::int64_t steps = divide_up(state.batch, saved.accumulate);
  state.batch = std::min(steps * limits().accumulate, limits().train_batches);
}

bool FitLoop::at_limit() const {
  const TrainState& state = context_.state;
  return (limits().max_steps >= 0 && state.global_step >= limits().max_steps) ||
         (limits().max_epochs >= 0 && state.epoch >= limits().max_epochs);
}

bool FitLoop::done() const {
  if (at_limit()) return true;
  const TrainState& state = context_.state;
  return pending_.stop && state.epoch >= limits().min_epochs && state.global_step >= limits().min_steps;
}

void FitLoop::warn_of_nothing_left() const {
  const TrainState& state = context_.state;
  const bool by_steps = limits().max_steps >= 0 && state.global_step >= limits().max_steps;
  log_warning("nothing is left to train: the checkpoint stands after " + std::to_string(state.epoch) +
              " epochs and " + std::to_string(state.global_step) + " steps, and " +
              (by_steps ? "max_steps is " + std::to_string(limits().max_steps)
                        : "max_epochs is " + std::to_string(limits().max_epochs)) +
              "; raise the limit to continue");
}

void FitLoop::run_epoch() {
  TrainState& state = context_.state;
  data_.prepare_epoch(state.epoch);
  show_limits();
  context_.progress.num_batches = limits().length_known ? limits().train_batches : -1;
  if (state.batch == 0) context_.hooks.call(hooks::on_train_epoch_start);
  data_.train().start_epoch(state.epoch, state.batch, limits().train_batches);
  context_.progress.samples_on_every_rank = data_.train().samples_on_every_rank();
  start_streams();
  context_.training_clock.resume();
  if (std::exchange(state.validation_due, false) && validates()) {
    validate();
    save_if_wanted();
  }
  while (!done() && read_batch()) {
    run_step();
    if (validation_due()) validate();
    save_if_wanted();
    PhaseClock::end_step();
  }
  finite_.answer();
  context_.pause_training();
  const bool complete = state.batch >= limits().train_batches || !streams_go_on_;
  if (complete) optimization_.unite();
  context_.progress.epoch_is_complete = complete;
  context_.metrics.model_metrics().reduce(context_.parts.world);
  context_.rows.log(context_.hooks.end_train_epoch());
  if (!complete) return;  // stopped within the epoch, which a resumed run would go on with
  ++state.epoch;
  state.batch = 0;
  optimization_.end_epoch();
  vote();
  save_if_wanted();
}

void FitLoop::start_streams() {
  if (!data_.train().is_stream()) return;
  streams_go_on_ = context_.parts.world.any(data_.train().has_next() ? 1 : 0) != 0;
  if (streams_go_on_ || context_.state.batch > 0) return;
  throw AgreedError(
      ExitCode::refused, MessageCode::no_data,
      "data: the streams of all ranks have no samples in epoch " + std::to_string(context_.state.epoch));
}

/// Reads the next batch of this rank; returns false at the end of the epoch. A rank whose stream has ended
/// goes on without samples until the streams of all ranks have ended. Steps are whole: all ranks decide
/// between steps, by the vote of the step before.
bool FitLoop::read_batch() {
  if (!ahead_.empty()) {
    batch_ = std::move(ahead_.front());
    ahead_.pop_front();
    return true;
  }
  const bool stream = data_.train().is_stream();
  if (stream && between_steps() && !streams_go_on_) return false;
  if (stream && context_.state.batch >= limits().train_batches) return false;
  return read_from_loader(batch_) || stream;
}

/// Returns false if the loader has no batch.
bool FitLoop::read_from_loader(ReadBatch& read) {
  const bool has_batch = context_.batches.next(data_.train(), read.batch);
  if (!has_batch) read.batch = {};
  read.global_size = data_.train().global_size();
  read.dataloader_idx = data_.train().dataloader_idx();
  return has_batch;
}

/// The strategy runs the micro-batches, by `next` and `end`; then all optimizers step.
void FitLoop::run_step() {
  micro_.reset();
  CurrentStep::set(context_.state.global_step);
  const StepResult own = context_.parts.strategy.step(*this);
  begin_vote(own);
  if (context_.voting.is_carried()) optimization_.complete();
  const StepVote of_all_ranks = context_.voting.end();
  note_skips_elsewhere(of_all_ranks.result());
  if (data_.train().is_stream()) streams_go_on_ = of_all_ranks.streams;
  context_.progress.stepped = optimization_.step(own, of_all_ranks.result(), *micro_);
  if (context_.progress.stepped && stays_finite()) {
    finite_.ask(optimization_.trained());
    if (context_.parts.device.is_cpu()) finite_.answer();
  }
  if (context_.training_clock.first_step_seconds() == 0) {
    context_.wait_for_devices();
    context_.training_clock.set_first_step_seconds(seconds_since_process_start());
  }
  end_batch();
  after_step();
}

/// The last step of an epoch may have fewer micro-batches; each then weighs more.
std::int64_t FitLoop::size() const {
  return std::min(limits().accumulate, limits().train_batches - first_of_step());
}

const Batch& FitLoop::batch(std::int64_t i) {
  const std::int64_t current = micro_ ? micro_->batch_idx - first_of_step() : 0;
  const auto after_current = static_cast<std::size_t>(i - current);
  while (ahead_.size() < after_current) read_from_loader(ahead_.emplace_back());
  return after_current == 0 ? batch_.batch : ahead_[after_current - 1].batch;
}

/// The first batch of a step has been read before the step.
const MicroStep* FitLoop::next() {
  if (micro_ && micro_->last) return nullptr;
  if (micro_) {
    end_batch();
    if (validation_due()) validate();
    if (!read_batch()) batch_.batch = {};
  }
  begin_batch();
  return &*micro_;
}

void FitLoop::begin_batch() {
  const std::int64_t idx = context_.state.batch;
  context_.progress.batch_idx = idx;
  context_.progress.samples_per_batch = samples_over_ranks();
  context_.progress.dataloader_idx = batch_.dataloader_idx;
  context_.progress.stepped = false;
  scope_.emplace(context_.metrics, hooks::kTrainingStep, batch_.batch.size);
  context_.hooks.call(hooks::on_train_batch_start, batch_.batch, idx);
  micro_.emplace(micro_step());
  vote_to_begin_ = micro_->last;
  optimization_.begin(*micro_, some_rank_is_empty());
}

void FitLoop::end(StepOutput output) {
  optimization_.end();
  if (stays_finite()) {
    finite_.answer();  // what was asked after the step before, on a device
    finite_.ask(output.loss);
    if (context_.parts.device.is_cpu()) finite_.answer();
  }
  if (!output.loss.defined() && batch_.batch.size > 0 && !optimization_.is_manual()) note_skip();
  ++context_.state.batch;
  context_.state.samples += samples_over_ranks();
  output_ = std::move(output);
}

void FitLoop::end_batch() {
  context_.hooks.call(hooks::on_train_batch_end, output_, batch_.batch, micro_->batch_idx);
  output_ = {};
  scope_.reset();
  batch_.batch.objects.clear();
  batch_.batch.tensors.clear();  // their memory may serve the batches of a validation
}

MicroStep FitLoop::micro_step() {
  const std::int64_t idx = context_.state.batch, begin = first_of_step(), micro_batches = size();
  // On uneven shards a rank's mean counts by its samples, so that the average over ranks is the global mean.
  const auto share = static_cast<double>(batch_.global_size) / data_.train().shard().count;
  const double weight = static_cast<double>(batch_.batch.size) / share / static_cast<double>(micro_batches);
  return {.batch = batch_.batch,
          .batch_idx = idx,
          .first = idx == begin,
          .last = idx == begin + micro_batches - 1,
          .loss_weight = weight,
          .scaler = optimization_.scaler(),
          .observer = *this};
}

/// Of the last batch. Without the distributed sampler every rank reads the whole of it.
std::int64_t FitLoop::samples_over_ranks() {
  const int readers = context_.parts.strategy.data_shard().count / data_.train().shard().count;
  return batch_.global_size * readers;
}

/// Once for a step.
void FitLoop::begin_vote(const StepResult& result) {
  if (!std::exchange(vote_to_begin_, false)) return;
  const bool streams = data_.train().is_stream() && data_.train().has_next();
  context_.voting.begin(result, streams, writes_checkpoint(), optimization_.exchange());
}

void FitLoop::note_skip() {
  if (std::exchange(skip_noted_, true)) return;
  log_warning("training_step returned no loss in " + context_.where() +
              ": the batch is skipped, and so is every further one without a loss");
}

/// The log of the rank that skips says so, and the console shows rank 0's.
void FitLoop::note_skips_elsewhere(const StepResult& of_all_ranks) {
  if (!of_all_ranks.skipped) return;
  if (!context_.parts.world.is_root() || std::exchange(skip_noted_, true)) return;
  log_warning("training_step of another rank returned no loss in " + context_.where() +
              ": its log (rank_K.log) names the batch, which is skipped");
}

void FitLoop::after_step() {
  context_.rows.write_pending();  // the step before's, whose values have had this step to arrive
  const std::int64_t every = limits().log_every;
  if (context_.progress.stepped && every > 0 && context_.state.global_step % every == 0)
    context_.rows.log_step();
  context_.rows.loggers.flush_when_due();
  context_.requests.validation = validation_time_is_up();
  handle(context_.voting.vote_after_step(writes_checkpoint()));
}

/// By rank 0's clock.
bool FitLoop::validation_time_is_up() const {
  const std::optional<double> every = limits().val_every_seconds;
  return every && context_.parts.world.is_root() && context_.clock.now() - validated_at_ >= *every;
}

void FitLoop::handle(const StepVote& vote) {
  if (!vote.writing && checkpoints_ != nullptr) checkpoints_->proceed();
  const Requests& own = context_.requests;
  const bool stopped = pending_.stop;
  pending_ = pending_ | vote;
  pending_.stop = pending_.stop || own.stop_on_all;
  pending_.checkpoint = pending_.checkpoint || own.checkpoint_on_all;
  if (pending_.stop && !stopped && !own.stop_reason.empty()) log_info(own.stop_reason);
  if (pending_.ends_run() && checkpoints_ == nullptr) throw context_.ending(pending_, /*is_saved=*/false);
}

void FitLoop::save_if_wanted() {
  if (!pending_.wants_checkpoint()) return;
  const StepVote wanted = pending_;
  pending_.checkpoint = pending_.save = false;
  context_.requests.checkpoint = context_.requests.checkpoint_on_all = context_.requests.save = false;
  if (checkpoints_ == nullptr) return;
  finite_.answer();
  context_.rows.write_pending();
  optimization_.unite_state();
  const bool saved = checkpoints_->save(wanted);
  if (wanted.ends_run()) throw context_.ending(wanted, saved);
}

bool FitLoop::validation_due() const {
  if (!validates()) return false;
  if (limits().val_every_seconds) return pending_.validation;
  const TrainState& state = context_.state;
  if (!limits().length_known && limits().val_every_batches >= limits().train_batches) {
    const bool at_end = !streams_go_on_ || state.batch == limits().train_batches;
    return at_end && (state.epoch + 1) % limits().val_every_epochs == 0;
  }
  if (limits().val_counts_across_epochs) {
    return (state.epoch * limits().train_batches + state.batch) % limits().val_every_batches == 0;
  }
  return (state.epoch + 1) % limits().val_every_epochs == 0 && state.batch % limits().val_every_batches == 0;
}

std::optional<MetricStore::Values> FitLoop::run_validation(std::span<const std::int64_t> batches) {
  auto values = evaluate(context_, EvaluationStage::validate, data_.val(), batches,
                         /*saves_state=*/checkpoints_ != nullptr);
  if (!values) {
    cannot_validate_ = true;
    show_limits();
    log_warning(
        "the data has a validation split, but the model does not define validation_step: training "
        "without validation (--limit_val_batches 0 says so beforehand)");
  }
  return values;
}

void FitLoop::validate() {
  const PhaseScope phase(Phase::validation);
  context_.pause_training();
  context_.rows.write_pending();
  if (between_steps()) optimization_.unite();
  StateDict generators;
  context_.parts.generators.save(generators);
  try {
    if (const auto values = run_validation(limits().val_batches)) context_.rows.log(*values);
  } catch (const Interrupted&) {
    leave_validation(generators);
    throw;
  }
  context_.rows.loggers.flush();
  context_.requests.validation = pending_.validation = false;
  validated_at_ = context_.clock.now();
  vote();
  context_.training_clock.resume();
}

/// Where the state can be saved, it is as before the validation, which the resumed run begins anew, and the
/// run ends here.
void FitLoop::leave_validation(const StateDict& generators) {
  if (checkpoints_ == nullptr || !between_steps()) return;
  context_.parts.generators.load(generators);
  context_.metrics.forget_epoch(LogRule::Phase::evaluation);
  context_.state.validation_due = true;
  vote();  // on the signal, once more
  save_if_wanted();
}

}  // namespace cxtrain
