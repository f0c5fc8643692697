#include "cxtrain/trainer/train_context.h"

#include <algorithm>
#include <cmath>
#include <typeinfo>
#include <utility>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/class_name.h"
#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

/// Over several nodes a meeting of its own would cost each step the way between them, and on devices the work
/// that the host could submit meanwhile.
bool votes_within_step(const TrainContext::Parts& parts) {
  if (parts.world.size() == 1) return false;
  return !parts.device.is_cpu() || parts.world.facts().num_nodes > 1;
}

}  // namespace

TrainContext::TrainContext(Parts p)
    : parts(std::move(p)),
      run({parts.world, parts.module, parts.plan, parts.log_dir, parts.files, &parts.strategy, metrics, rows,
           state, progress, requests, saved}),
      rows(metrics, parts.world, state, progress, clock, !parts.device.is_cpu()),
      batches(parts.device, parts.input_dtype, parts.plan.channels_last,
              {parts.data, parts.module, parts.strategy.data_shard().index}),
      voting(parts.world, requests, votes_within_step(parts)),
      hooks(run, parts.module, metrics) {
  progress.log_every_n_steps = parts.options.trainer.log_every_n_steps;
  progress.votes_within_step = votes_within_step(parts);
}

std::string TrainContext::model_name() const {
  const std::string& name = parts.options.model.name;
  return name.empty() ? class_name(typeid(parts.module)) : name;
}

double TrainContext::training_seconds() const {
  const bool trains = training_clock.running() || state.batch > 0 || state.epoch > 0;
  return trains ? training_clock.seconds_trained() : training_clock.seconds_since_start();
}

void TrainContext::wait_for_devices() const { synchronize(parts.generators.devices()); }

void TrainContext::pause_training() {
  if (!training_clock.running()) return;
  wait_for_devices();
  training_clock.pause();
}

void TrainContext::save_place(StateDict& place) const {
  place.set("epoch", state.epoch);
  place.set("batch", state.batch);
  place.set("num_batches", std::max<std::int64_t>(progress.num_batches, 0));
  if (progress.num_batches < 0) place.set("of_stream", 1);
  place.set("accumulate", progress.accumulate);
  place.set("samples_per_step", progress.samples_per_step);
  place.set("global_step", state.global_step);
  place.set("samples", state.samples);
  place.set("seed", state.seed);
  if (state.validation_due) place.set("validation_due", 1);
  place.set("seconds", training_seconds());
  if (tuned.lr) place.set("tuned_lr", *tuned.lr);
  if (tuned.batch_size) place.set("tuned_batch_size", *tuned.batch_size);
}

namespace {

/// A count of a saved place, which may come from a file that somebody has changed: at least `least`, and no
/// more than any training reaches, so that sums and products of counts stay within 64 bits.
std::int64_t count_of(const StateDict& place, const char* name, std::int64_t least = 0) {
  constexpr std::int64_t kMaxCount = std::int64_t{1} << 50;
  const std::int64_t count = place.integer(name);
  if (count >= least && count <= kMaxCount) return count;
  throw StateError("the saved state is damaged: its " + std::string(name) + " is " + std::to_string(count));
}

}  // namespace

void TrainContext::load_place(const StateDict& place) {
  state = {.epoch = count_of(place, "epoch"),
           .batch = count_of(place, "batch"),
           .global_step = count_of(place, "global_step"),
           .samples = count_of(place, "samples"),
           .validation_due = place.has("validation_due"),
           .seed = static_cast<std::uint64_t>(place.integer("seed"))};
  progress.num_batches = place.has("of_stream") ? -1 : count_of(place, "num_batches");
  progress.accumulate = count_of(place, "accumulate", 1);
  progress.samples_per_step = count_of(place, "samples_per_step", 1);
  const double trained = place.real("seconds");
  const bool beyond = progress.num_batches >= 0 && state.batch > progress.num_batches;
  if (beyond || !std::isfinite(trained) || trained < 0) {
    throw StateError("the saved state is damaged: it stands at batch " + std::to_string(state.batch) +
                     " of " + std::to_string(progress.num_batches) + " after " + std::to_string(trained) +
                     " s");
  }
  training_clock.set_seconds_trained(trained);
  if (place.has("tuned_lr")) tuned.lr = place.real("tuned_lr");
  if (place.has("tuned_batch_size")) tuned.batch_size = place.integer("tuned_batch_size");
}

}  // namespace cxtrain
