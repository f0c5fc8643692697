#include "cxtrain/trainer/train_context.h"

#include <c10/util/Type.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <typeinfo>
#include <utility>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/version.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {

TrainContext::TrainContext(Parts p)
    : parts(std::move(p)),
      rows(metrics, parts.world, state, clock, !parts.device.is_cpu()),
      batches(parts.device, parts.input_dtype, parts.plan.channels_last),
      voting(parts.world, requests, checkpointer, !parts.device.is_cpu() && parts.world.size() > 1) {}

std::vector<std::string> TrainContext::metric_names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics.all()) names.push_back(name);
  return names;
}

void TrainContext::request_stop(std::string reason) {
  if (!requests.stop) requests.stop_reason = std::move(reason);
  requests.stop = true;
}

void TrainContext::request_requeue(std::string reason) {
  if (!requests.requeue) requests.requeue_reason = std::move(reason);
  requests.requeue = true;
}

void TrainContext::save_checkpoint(const StateDict& state_to_save, SaveRequest request) {
  Manifest manifest;
  manifest.program = std::string("cxtrain ") + CXTRAIN_VERSION;
  manifest.epoch = state.epoch;
  manifest.batch = state.batch;
  manifest.global_step = state.global_step;
  manifest.samples = state.samples;
  manifest.seed = state.seed;
  manifest.global_batch = loop.samples_per_step;
  manifest.world_size = parts.world.size();
  manifest.strategy = parts.plan.strategy;
  manifest.precision = parts.plan.precision;
  manifest.model = model_name();
  manifest.data = data_fingerprint;
  manifest.created = seconds_since_1970();
  if (parts.config_text != nullptr) manifest.config = *parts.config_text;
  manifest.log_dir = parts.log_dir;
  manifest.metrics = metrics.all();
  request.then = [this, resumable = !request.weights_only, then = std::move(request.then)](bool saved) {
    if (saved && resumable) checkpoint_saved(checkpointer->last_seconds());
    if (then) then(saved);
  };
  checkpointer->save(state_to_save, std::move(request), std::move(manifest));
}

std::string TrainContext::model_name() const {
  const std::string& name = parts.options.model.name;
  return name.empty() ? c10::demangle(typeid(parts.module).name()) : name;
}

std::vector<std::pair<std::string, std::string>> TrainContext::parameter_checksums() {
  if (!parts.strategy.ranks_keep_whole_models()) return {};
  std::set<std::string> parameters;
  for (const NamedTensor& parameter : parts.module.all_parameters()) parameters.insert(parameter.name);
  std::vector<std::pair<std::string, std::string>> checksums;
  parts.strategy.visit_whole([&](const NamedTensor& named) {
    if (!parameters.contains(named.name)) return;
    checksums.emplace_back(named.name, checksum_of(host_bytes(on_host(named.tensor))));
  });
  return checksums;
}

void TrainContext::checkpoint_saved(double seconds) {
  ++checkpoints_saved_;
  longest_save_seconds_ = std::max(seconds, longest_save_seconds_.value_or(0));
}

void TrainContext::call_train_epoch_end(const std::function<void()>& between) {
  const auto call_callbacks = [this](bool monitors) {
    for (Callback* const callback : callbacks) {
      if (callback->monitors() == monitors) callback->on_train_epoch_end(*this);
    }
  };
  {
    const LogScope scope(metrics, hooks::on_train_epoch_end.rule);
    call_callbacks(/*monitors=*/false);
    parts.module.on_train_epoch_end();
  }
  between();
  call_callbacks(/*monitors=*/true);
}

void TrainContext::leave_if_asked() {
  const StepVote vote = voting.vote();
  if (loop.saves_state ? vote.sigint || vote.sigterm : vote.ends_run()) throw ending(vote, /*saved=*/false);
}

Interrupted TrainContext::ending(const StepVote& vote, bool saved) const {
  return ending_of(vote, requests, std::string(word_of(parts.options.trainer.requeue_signal)), saved);
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
  place.set("num_batches", loop.num_batches);
  place.set("accumulate", loop.accumulate);
  place.set("samples_per_step", loop.samples_per_step);
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
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const std::int64_t count = place.integer(name);
  if (count >= least && count <= kMost) return count;
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
  loop.num_batches = count_of(place, "num_batches");
  loop.accumulate = count_of(place, "accumulate", 1);
  loop.samples_per_step = count_of(place, "samples_per_step", 1);
  const double trained = place.real("seconds");
  if (state.batch > loop.num_batches || !std::isfinite(trained) || trained < 0) {
    throw StateError("the saved state is damaged: it stands at batch " + std::to_string(state.batch) +
                     " of " + std::to_string(loop.num_batches) + " after " + std::to_string(trained) + " s");
  }
  training_clock.set_seconds_trained(trained);
  if (place.has("tuned_lr")) tuned.lr = place.real("tuned_lr");
  if (place.has("tuned_batch_size")) tuned.batch_size = place.integer("tuned_batch_size");
  resumed = true;
}

std::string TrainContext::where() const {
  return "epoch " + std::to_string(state.epoch) + ", step " + std::to_string(state.global_step);
}

}  // namespace cxtrain
