#include "cxtrain/trainer/run.h"

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
#include "cxtrain/tensor/layout.h"

namespace cxtrain {

Run::Run(Parts p) : parts(std::move(p)) {
  if (!parts.device.is_cpu()) transfer_.emplace(parts.device);
  start_clock();
}

std::vector<std::string> Run::metric_names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics.all()) names.push_back(name);
  return names;
}

void Run::request_stop(std::string reason) {
  if (!stop_requested) stop_reason = std::move(reason);
  stop_requested = true;
}

void Run::request_requeue(std::string reason) {
  if (!requeue_requested) requeue_reason = std::move(reason);
  requeue_requested = true;
}

void Run::save_checkpoint(const StateDict& state_to_save, SaveRequest request) {
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

std::string Run::model_name() const {
  const std::string& name = parts.options.model.name;
  return name.empty() ? c10::demangle(typeid(parts.module).name()) : name;
}

std::vector<std::pair<std::string, std::string>> Run::parameter_checksums() {
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

void Run::checkpoint_saved(double seconds) {
  ++checkpoints_saved_;
  longest_save_seconds_ = std::max(seconds, longest_save_seconds_.value_or(0));
}

void Run::call_train_epoch_end(const std::function<void()>& between) {
  const auto call_callbacks = [this](bool monitors) {
    for (const auto& callback : callbacks) {
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

void Run::log_row(std::span<const MetricLogger::Metric> row) {
  write_pending_row();
  if (!row.empty()) loggers.log(row_step(), state.epoch, row);
}

void Run::log_step_row() {
  write_pending_row();
  pending_row_ = {row_step(), state.epoch, metrics.take_step_values()};
  if (parts.device.is_cpu()) write_pending_row();
}

void Run::write_pending_row() {
  if (!pending_row_) return;
  const PendingRow row = *std::exchange(pending_row_, std::nullopt);
  const MetricStore::Values values = metrics.read(row.values, parts.world);
  if (!values.empty()) loggers.log(row.step, row.epoch, values);
}

std::uint64_t Run::wishes() const {
  std::uint64_t flags = 0;
  if (stop_requested) flags |= kStopRequested;
  if (checkpoint_requested) flags |= kCheckpointRequested;
  if (requeue_requested) flags |= kRequeueRequested;
  if (save_requested) flags |= kSaveRequested;
  if (validation_requested) flags |= kValidationRequested;
  if (checkpointer && checkpointer->busy()) flags |= kSaving;
  if (const int signal = StopSignals::received(); signal != 0) {
    flags |= signal == SIGINT ? kInterrupted : kTerminated;
  }
  if (StopSignals::asked_to_requeue()) flags |= kRequeueSignal;
  return flags;
}

Interrupted Run::ending(std::uint64_t agreed, bool saved) const {
  const ExitCode code = saved ? ExitCode::requeue : ExitCode::terminated;
  if ((agreed & kTerminated) != 0) return {code, "SIGTERM"};
  // Whoever sits at the terminal does not want it started again.
  if ((agreed & kInterrupted) != 0) return {ExitCode::interrupted, "SIGINT"};
  if ((agreed & kRequeueSignal) != 0)
    return {code, std::string(word_of(parts.options.trainer.requeue_signal))};
  return {code, requeue_reason.empty() ? "the wish of a callback on another rank" : requeue_reason};
}

std::uint64_t Run::agree(std::uint64_t flags) { return parts.world.any(flags | wishes()); }

std::uint64_t Run::agree_or_leave(std::uint64_t flags) {
  const std::uint64_t agreed = agree(flags);
  const std::uint64_t urgent = loop.saves_state ? kInterrupted | kTerminated : kEnds;
  if ((agreed & urgent) != 0) throw ending(agreed, /*saved=*/false);
  return agreed;
}

std::uint64_t Run::agree_after_step() {
  const std::optional<std::uint64_t> early = std::exchange(agreed_within_step_, std::nullopt);
  const bool runs_ahead = !parts.device.is_cpu() && parts.world.size() > 1;
  return runs_ahead && early ? *early : agree();
}

void Run::begin_agreement(std::uint64_t flags) { parts.world.begin_any(flags | wishes()); }

std::uint64_t Run::end_agreement() {
  agreed_within_step_ = parts.world.end_any();
  return *agreed_within_step_;
}

bool Run::next(DataLoader& loader, Batch& batch) {
  batch.tensors.clear();  // the next one may take their memory, which on a CPU is still in the caches
  if (!loader.next(batch)) return false;
  if (transfer_) {
    transfer_->bring(batch);
    loader.finish(batch);
  }
  if (!parts.input_dtype && !parts.plan.channels_last) return true;
  for (at::Tensor& tensor : batch.tensors) {
    if (!tensor.defined() || !tensor.is_floating_point()) continue;
    if (parts.input_dtype) tensor = tensor.to(*parts.input_dtype);
    if (parts.plan.channels_last) tensor = with_channels_last(tensor);
  }
  return true;
}

void Run::drop_batches() {
  if (!transfer_) return;
  wait_for_devices();
  transfer_.emplace(parts.device);
}

double Run::training_seconds() const {
  if (training_since_) return trained_ + clock.now() - *training_since_;
  return state.batch == 0 && state.epoch == 0 ? elapsed_seconds() : trained_;
}

void Run::wait_for_devices() const { synchronize(parts.generators.devices()); }

void Run::pause_training() {
  if (training_since_) wait_for_devices();
  if (training_since_) trained_ += clock.now() - *training_since_;
  training_since_.reset();
}

void Run::save_place(StateDict& place) const {
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

void Run::load_place(const StateDict& place) {
  state = {.epoch = count_of(place, "epoch"),
           .batch = count_of(place, "batch"),
           .global_step = count_of(place, "global_step"),
           .samples = count_of(place, "samples"),
           .validation_due = place.has("validation_due"),
           .seed = static_cast<std::uint64_t>(place.integer("seed"))};
  loop.num_batches = count_of(place, "num_batches");
  loop.accumulate = count_of(place, "accumulate", 1);
  loop.samples_per_step = count_of(place, "samples_per_step", 1);
  trained_ = place.real("seconds");
  const bool time_goes_on = std::isfinite(trained_) && trained_ >= 0;
  if (state.batch > loop.num_batches || !time_goes_on) {
    throw StateError("the saved state is damaged: it stands at batch " + std::to_string(state.batch) +
                     " of " + std::to_string(loop.num_batches) + " after " + std::to_string(trained_) + " s");
  }
  if (place.has("tuned_lr")) tuned.lr = place.real("tuned_lr");
  if (place.has("tuned_batch_size")) tuned.batch_size = place.integer("tuned_batch_size");
  resumed = true;
}

std::string Run::where() const {
  return "epoch " + std::to_string(state.epoch) + ", step " + std::to_string(state.global_step);
}

}  // namespace cxtrain
