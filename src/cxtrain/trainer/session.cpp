#include "cxtrain/trainer/session.h"

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/run_event.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/hyperparameters.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/values.h"
#include "cxtrain/device/resources.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "cxtrain/strategy/blocks.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/model_checks.h"
#include "cxtrain/trainer/place_layers.h"
#include "cxtrain/trainer/rank_table.h"
#include "cxtrain/trainer/run_callbacks.h"
#include "cxtrain/trainer/within_memory.h"

namespace cxtrain {
namespace {

// What a run says of itself at its beginning.

void add_section(Hyperparameters& all, const std::string& section, const Hyperparameters& values) {
  for (const auto& [name, value] : values) all[section + "." + name] = value;
}

/// The arguments of model and data, by the names of options.
Hyperparameters arguments_of(const Module& module, const DataModule& data) {
  Hyperparameters all;
  add_section(all, "model", module.hparams());
  add_section(all, "data", data.hparams());
  return all;
}

/// The same, with what the options say of the optimizer, the schedule and the batches.
Hyperparameters hyperparameters_of(const TrainContext& context) {
  const Options& options = context.parts.options;
  Hyperparameters all = arguments_of(context.parts.module, context.parts.data);
  add_section(all, "optimizer", options.optimizer.args);
  add_section(all, "lr_scheduler", options.lr_scheduler.args);
  if (!options.optimizer.name.empty()) all["optimizer"] = options.optimizer.name;
  if (!options.lr_scheduler.name.empty()) all["lr_scheduler"] = options.lr_scheduler.name;
  if (options.data.batch_size) all["data.batch_size"] = std::to_string(*options.data.batch_size);
  return all;
}

/// Logs the plan, the strategy, the folder and, if the options want it, the model. `layers`: of the model.
void announce(const TrainContext& context, const std::vector<LayerRow>& layers) {
  const TrainContext::Parts& parts = context.parts;
  if (parts.options.trainer.barebones) {
    for (const Problem& warning : parts.plan.warnings) log_warning(to_line(warning));
    return;
  }
  log_info(to_text(parts.plan));
  if (parts.world.is_root()) log_event({.event = RunEvent::Kind::devices, .text = devices_text(parts.plan)});
  log_info("gradients: " + parts.strategy.describe());
  if (!parts.log_dir.empty()) log_info("writing to " + parts.log_dir);
  if (parts.options.trainer.enable_model_summary) log_info(model_summary(layers));
}

/// Logs the place of each rank, in the log's file: who looks for a slow node later asks where which rank was.
/// Collective.
void record_places(World& world, const Plan& plan) {
  const std::string table = gather_rank_table(world, plan);
  const OpenFileCount own = open_file_count();
  const std::int64_t libraries = world.max(own.libraries), others = world.max(own.others);
  if (!world.is_root()) return;
  log_detail("where the ranks run\n" + table);
  log_detail("files that a rank holds open at the start, at most: " + std::to_string(libraries) +
             " programs and libraries, " + std::to_string(others) + " others");
}

// The content of run.json.

/// Fills in the position, the metrics and the speed of a run. `fit`: the fit before, for a call that does not
/// train; null for a run that may train. Talks to no other rank.
void add_progress(RunSummary& summary, const TrainContext& context, const RunSummary* fit) {
  summary.epochs = context.state.epoch;
  summary.global_step = context.state.global_step;
  // A device that has failed, or that waits for a lost rank, never answers.
  summary.metrics = summary.status == "failed" ? context.metrics.all_on_host() : context.metrics.all();
  if (fit != nullptr) {  // what is said of the training was true at its end
    summary.metrics.insert(fit->metrics.begin(), fit->metrics.end());
    summary.seconds = fit->seconds;
    summary.samples_per_second = fit->samples_per_second;
    summary.samples_per_step = fit->samples_per_step;
    summary.first_step_seconds = fit->first_step_seconds;
    return;
  }
  summary.seconds = context.training_seconds();
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(context.state.samples) / summary.seconds : 0;
  summary.samples_per_step = context.progress.samples_per_step;
  summary.first_step_seconds = context.training_clock.first_step_seconds();
}

/// Fills in what the ranks find out together: memory of the largest rank, and whether all ranks hold equal
/// parameters. A difference is logged, and takes nothing from the user that the run has reached. Collective.
void add_comparison(RunSummary& summary, World& world, Strategy& strategy) {
  summary.parameters_sha256 = parameters_sha256(strategy);
  summary.peak_memory_bytes = world.max(summary.peak_memory_bytes);
  summary.pss_bytes = world.max(summary.pss_bytes);
  summary.peak_device_memory_bytes = world.max(summary.peak_device_memory_bytes);
  if (!strategy.ranks_keep_whole_models()) return;  // nobody has a second copy to compare
  summary.parameters_equal_on_all_ranks = same_on_all_ranks(world, summary.parameters_sha256);
  if (*summary.parameters_equal_on_all_ranks) return;
  const std::vector<std::string> hashes = world.all_gather(summary.parameters_sha256);
  summary.parameters_sha256 = hashes[0];
  std::vector<int> others;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != hashes[0]) others.push_back(static_cast<int>(rank));
  }
  log_warning("THE RANKS HAVE DRIFTED APART: at the end rank" +
              (others.size() == 1 ? " " + std::to_string(others[0]) + " has"
                                  : "s " + shortened(format_ranges(others), 200) + " have") +
              " other parameters or buffers than rank 0. What counts is rank 0's, and run.json says "
              "parameters_equal_on_all_ranks: false. Look for a hook or an optimizer that is not the same on "
              "all ranks, a buffer that depends on the rank's data (trainer.sync_batchnorm), or GPUs of "
              "several models, which may round differently");
}

}  // namespace

Session::Session(const SessionInputs& inputs, TrainerState& state, std::unique_ptr<Strategy> strategy,
                 Module& module, DataModule& data, Stage stage)
    : inputs_(inputs),
      state_(state),
      config_text_(inputs.config_text),
      module_(module),
      data_(data),
      stage_(stage),
      continues_(stage != Stage::fit && state.fitted),
      goes_on_in_place_(!continues_ && !inputs.log_dir.empty()),
      precision_(precision_policy(inputs.plan.precision, inputs.plan.amp_level)),
      strategy_context_{.world = inputs.world,
                        .plan = inputs.plan,
                        .options = inputs.options,
                        .precision = precision_,
                        .device = inputs.device,
                        .accelerator = inputs.accelerator},
      folder_(inputs.world, inputs.files, inputs.log),
      strategy_(std::move(strategy)) {
  if (inputs.plan.comm_hook) strategy_context_.make_comm_hook = [this] { return make_comm_hook(); };
  // A model that the options name has its arguments there.
  const Hyperparameters hparams = arguments_of(module, data);
  if (!config_text_.empty() && inputs.options.model.name.empty() && !hparams.empty())
    config_text_ += "hyperparameters:\n" + to_yaml(hparams, "  ");
}

void Session::open() {
  World& world = inputs_.world;
  open_folder();
  run_agreed(world, [this] { place_model(); });
  strategy_->connect();
  generators_.emplace(strategy_context_.devices);
  make_context();
  run_agreed(world, [this] { add_run_callbacks(*context_, state_.callbacks, inputs_.registry); });
  attach();
  // The model is the same everywhere by now; dropout must not be.
  generators_->seed_apart(context_->state.seed, world.rank(), world.size());
  if (!goes_on_in_place_) write_files();
  world.process_end().rescue = [this](int exit_code) { fail(exit_code); };
  signals_.emplace(signal_number(inputs_.options.trainer.requeue_signal),
                   /*announces=*/inputs_.world.is_root() && !inputs_.options.quiet);
  context_->hooks.call(hooks::setup, stage_);
}

void Session::open_folder() {
  if (!continues_) state_.log_dir.clear();
  // Who wants no logger wants no files. A fit that failed to make its folder leaves none to the calls after
  // it.
  if (!inputs_.options.trainer.logger || (continues_ && state_.log_dir.empty())) return;
  using Use = SessionFolder::Use;
  const Use use = continues_ ? Use::extend : goes_on_in_place_ ? Use::resume : Use::make;
  const std::string& path = continues_          ? state_.log_dir
                            : goes_on_in_place_ ? inputs_.log_dir
                                                : inputs_.options.trainer.default_root_dir;
  folder_.open(use, path, inputs_.options.timeout_seconds);
  state_.log_dir = folder_.path();
  if (!goes_on_in_place_) folder_.begin_files(config_text_);
}

void Session::place_model() {
  make_replicas();
  if (inputs_.plan.channels_last) {
    set_channels_last(module_);
    for (const auto& replica : replicas_) set_channels_last(*replica);
  }
  if (stage_ == Stage::fit || stage_ == Stage::tune) require_real_parameters(module_);
  choose_recomputation();
  strategy_->place(trainable(module_), strategy_context_);
  if (inputs_.options.trainer.enable_model_summary) layers_ = layer_rows(module_);
}

void Session::make_context() {
  context_ = std::make_unique<TrainContext>(TrainContext::Parts{
      inputs_.world, inputs_.options, inputs_.plan, module_, data_, *strategy_, inputs_.device, *generators_,
      precision_.module_dtype, inputs_.files, state_.log_dir});
  state_.running = context_.get();
  inputs_.world.set_timeout(inputs_.options.timeout_seconds, [this] { return context_->where(); });
  if (continues_) context_->state = *state_.fitted;
  context_->state.seed = inputs_.options.seed.value_or(0);
  context_->tuned = state_.tuned;
  context_->progress.stage = stage_;
}

void Session::begin_files() {
  if (!goes_on_in_place_) return;
  if (!folder_.path().empty()) folder_.begin_files(config_text_);
  write_files();
}

void Session::write_files() {
  if (!continues_) run_agreed(inputs_.world, [this] { make_plan_loggers(); });
  if (inputs_.world.is_root())
    for (const auto& logger : state_.loggers) context_->rows.loggers.add(*logger);
  for (const auto& logger : state_.plan_loggers) context_->rows.loggers.add(*logger);
  const Hyperparameters hparams = hyperparameters_of(*context_);
  if (stage_ == Stage::fit && inputs_.world.is_root() && !hparams.empty())
    context_->rows.loggers.log_hyperparams(hparams);
  announce(*context_, layers_);
  if (!continues_ && !inputs_.options.trainer.barebones) record_places(inputs_.world, inputs_.plan);
}

Session::~Session() {
  inputs_.world.process_end().rescue = [](int /*status*/) {};
  inputs_.world.set_timeout(inputs_.options.timeout_seconds, {});
  if (!context_) return;
  state_.running = nullptr;
  cxtrain::attach(module_, nullptr, nullptr);
  state_.tuned = context_->tuned;
}

std::unique_ptr<CommHook> Session::make_comm_hook() const {
  const ChosenCommHook& chosen = *inputs_.plan.comm_hook;
  const auto seed = static_cast<std::uint64_t>(inputs_.options.seed.value_or(0));
  return inputs_.registry.make<CommHook>(chosen.name, chosen.arguments, {.seed = seed});
}

void Session::make_replicas() {
  const RankPlan& rank = inputs_.plan.ranks[static_cast<std::size_t>(inputs_.world.rank())];
  for (const std::string& device : rank.devices) strategy_context_.devices.emplace_back(device);
  if (strategy_context_.devices.empty()) strategy_context_.devices = {inputs_.device};
  const int wanted = inputs_.plan.replicas - 1;
  if (wanted > 0 && !inputs_.replica_factory) {
    throw ConfigError("trainer.strategy",
                      inputs_.plan.strategy + " keeps " + std::to_string(wanted + 1) +
                          " replicas of the model, and the trainer has no factory for them",
                      "trainer.set_replica_factory([] { return std::make_unique<MyModel>(); })",
                      MessageCode::conflicting_options);
  }
  for (int i = 0; i < wanted; ++i) {
    replicas_.push_back(inputs_.replica_factory());
    strategy_context_.replicas.push_back(&trainable(*replicas_.back()));
  }
}

void Session::choose_recomputation() {
  const bool recompute = inputs_.plan.recompute_blocks;
  if (Blocks* const blocks = trainable(module_).blocks()) return blocks->set_recompute(recompute);
  if (!recompute) return;
  throw ConfigError("trainer.recompute_blocks", "needs a model in blocks, and this one has none",
                    "derive the model from cxtrain::ChainModule or cxtrain::BlockModule",
                    MessageCode::conflicting_options);
}

void Session::make_plan_loggers() {
  state_.plan_loggers.clear();
  if (!inputs_.world.is_root()) return;
  const RunFolder folder{inputs_.files, state_.log_dir};
  for (const ChosenComponent& chosen : inputs_.plan.loggers)
    state_.plan_loggers.push_back(inputs_.registry.make<MetricLogger>(chosen.name, chosen.arguments, folder));
}

void Session::attach() {
  cxtrain::attach(module_, &context_->metrics, &context_->run);
  context_->metrics.model_metrics().set(trainable(module_).all_metrics());
  for (const auto& replica : replicas_) cxtrain::attach(*replica, nullptr, &context_->run);
}

std::unique_ptr<Optimization> Session::make_optimization(TrainContext& context,
                                                         const std::vector<NamedOptimizer>& setups,
                                                         const FitLimits& limits) const {
  World& world = inputs_.world;
  std::vector<OptimizerTarget> targets;
  run_agreed(world, [&] {
    targets = optimizer_targets(module_, setups);
    if (inputs_.device.is_cpu() && inputs_.plan.traits.memory != nullptr) {
      const ModelOutline outline{.module = trainable(module_), .targets = targets, .precision = precision_};
      const std::vector<RankMemory> memory = inputs_.plan.traits.memory(inputs_.plan, outline);
      require_memory_to_train(memory[static_cast<std::size_t>(world.rank())], world.facts().local_size);
    }
  });
  auto trained = strategy_->prepare(targets, backward_of(module_));
  give_back_freed_memory();  // parameters may have moved
  std::unique_ptr<Optimization> made;
  run_agreed(world, [&] {
    made = std::make_unique<Optimization>(context, setups, targets, std::move(trained), limits, precision_);
  });
  return made;
}

/// What this rank knows by itself.
RunSummary Session::summary(const char* status, int exit_code) const {
  RunSummary summary;
  summary.status = status;
  summary.exit_code = exit_code;
  summary.world_size = inputs_.world.size();
  summary.strategy = inputs_.plan.strategy;
  summary.precision = precision_.name;
  summary.peak_memory_bytes = peak_resident_bytes();
  summary.pss_bytes = proportional_bytes();
  summary.peak_device_memory_bytes = peak_device_bytes(strategy_context_.devices);
  if (context_) add_progress(summary, *context_, continues_ ? &state_.fitted_summary : nullptr);
  return summary;
}

void Session::close_loggers() const noexcept {
  context_->rows.loggers.flush();
  if (const std::int64_t lost = context_->rows.loggers.lost_rows(); lost > 0) {
    log_warning(std::to_string(lost) + " rows of metrics could not be written");
  }
}

RunSummary Session::finish() {
  strategy_->agree_on_buffers();
  RunSummary result = summary("done", static_cast<int>(ExitCode::done));
  // The files come first: reading all parameters may take long, or fail with the device.
  close_loggers();
  folder_.write("run.json", to_json(result));
  add_comparison(result, inputs_.world, *strategy_);
  if (context_->state.global_step > 0) {
    state_.fitted = context_->state;
    state_.fitted_summary = result;
  }
  folder_.write("run.json", to_json(result));
  context_->hooks.call(hooks::teardown, stage_);
  strategy_->teardown();
  return result;
}

RunSummary Session::stop(const Interrupted& signal) {
  context_->hooks.report(signal);
  context_->rows.write_pending();
  RunSummary result = summary("stopped", static_cast<int>(signal.code()));
  result.stopped_by = signal.by();
  close_loggers();
  folder_.write("run.json", to_json(result));
  result.parameters_sha256 = parameters_sha256(*strategy_);
  folder_.write("run.json", to_json(result));
  strategy_->teardown();
  return result;
}

void Session::fail(const std::exception& error) noexcept {
  if (context_) context_->hooks.report(error);
  fail(static_cast<int>(code_of(error)));
}

void Session::fail(int exit_code) noexcept {
  if (!inputs_.world.is_root() || !folder_.begun()) return;
  try {
    if (context_) context_->rows.loggers.flush();
    folder_.write("run.json", to_json(summary("failed", exit_code)));
  } catch (...) {
    // The error under way is the one to report.
  }
}

}  // namespace cxtrain
