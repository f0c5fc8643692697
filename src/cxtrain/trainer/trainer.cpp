#include "cxtrain/trainer/trainer.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <stdexcept>

#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/stop_signals.h"
#include "cxtrain/base/text.h"
#include "cxtrain/callbacks/built_in.h"
#include "cxtrain/checkpoint/manifest.h"
#include "cxtrain/cluster/end_job.h"
#include "cxtrain/config/presets.h"
#include "cxtrain/config/values.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/device/cuda_driver.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "cxtrain/plugin/known_components.h"
#include "cxtrain/plugin/loader.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/tensor/hollow.h"
#include "cxtrain/trainer/compute_settings.h"
#include "cxtrain/trainer/evaluation_loop.h"
#include "cxtrain/trainer/fit.h"
#include "cxtrain/trainer/init_module.h"
#include "cxtrain/trainer/resume.h"
#include "cxtrain/trainer/run_loaders.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/train_context.h"
#include "cxtrain/trainer/tuner.h"
#include "cxtrain/trainer/within_memory.h"

namespace cxtrain {
namespace {

/// Loads what it needs for that into the registry.
Plan decide(World& world, const Options& options, Registry& registry) {
  register_built_in(registry);
  const Hardware hardware = gather_hardware(world);
  Plan plan;
  run_agreed(world, [&] { plan = plan_with_plugins(registry, options, hardware, world.facts()); });
  return plan;
}

/// What a program that makes its own Trainer has to leave to its launcher, to `run_main` or `run`.
void require_ranks(const Plan& plan, const World& world) {
  if (!needs_launch(plan, world.facts())) return;
  throw ConfigError("trainer.strategy",
                    plan.strategy + " on " + std::to_string(plan.world_size) +
                        " devices needs as many ranks, and this process was started alone",
                    "start it as `mpirun -np " + std::to_string(plan.world_size) +
                        " PROGRAM`, or let cxtrain::run, or run_main, start them (cxtrain/cli/main.h)",
                    MessageCode::wrong_ranks);
}

/// Runs a method of the data module. An error inside LibTorch, or a lack of memory, is an error of the
/// arguments.
void call_data(const DataOptions& options, const std::function<void()>& method) {
  try {
    build_within_memory("data", "data.path=" + options.path, method);
  } catch (const std::filesystem::filesystem_error& error) {
    throw DataError("data: " + message_of(error) + "; check the path and its permissions",
                    MessageCode::file_failed);
  }
}

/// Where an evaluation or a prediction gets its data from.
struct DataOfStage {
  Stage stage;
  Loaders (DataModule::*loaders)();
  BatchLimit TrainerOptions::*limit;
  const char *option, *samples;
};
constexpr DataOfStage kDataOfStages[] = {
    {Stage::validate, &DataModule::val_dataloader, &TrainerOptions::limit_val_batches, "limit_val_batches",
     "validation samples"},
    {Stage::test, &DataModule::test_dataloader, &TrainerOptions::limit_test_batches, "limit_test_batches",
     "test samples"},
    {Stage::predict, &DataModule::predict_dataloader, &TrainerOptions::limit_predict_batches,
     "limit_predict_batches", "samples to predict"}};

/// The loaders of the stage, and the batches that the options leave of each.
struct StageData {
  std::vector<std::unique_ptr<DataLoader>> loaders;
  std::vector<std::int64_t> batches;
};

/// Throws ConfigError, on all ranks, if the stage has no data. Collective.
StageData open_stage(const TrainContext& context) {
  World& world = context.parts.world;
  const DataOfStage& stage = *std::ranges::find(kDataOfStages, context.progress.stage, &DataOfStage::stage);
  StageData data;
  std::string own;
  run_agreed(world, [&] {
    data.loaders = evaluation_loaders(context, (context.parts.data.*stage.loaders)(), stage.stage);
    if (data.loaders.empty())
      throw ConfigError("data", std::string("has no ") + stage.samples, "", MessageCode::no_data);
    own = joined(data.loaders, ", ", [&](const auto& loader) { return describe_length(*loader, world); });
  });
  require_same_data(world, own);
  run_agreed(world, [&] {
    for (const auto& loader : data.loaders)
      data.batches.push_back(
          limited_batches(context.parts.options.trainer.*stage.limit, stage.option, loader->num_batches()));
  });
  return data;
}

/// A validation or a test. Logs the metrics. Collective.
void evaluate_stage(Session& session) {
  TrainContext& context = session.context();
  const bool tests = context.progress.stage == Stage::test;
  const StageData data = open_stage(context);
  const auto values = evaluate(context, tests ? EvaluationStage::test : EvaluationStage::validate,
                               data.loaders, data.batches, /*saves_state=*/false);
  run_agreed(context.parts.world, [&] {
    if (!values) throw StepNotDefined(tests ? "test" : "validate", tests ? "test_step" : "validation_step");
  });
  context.rows.log(*values);
}

}  // namespace

Trainer::Trainer(World& world, TrainerOptions options)
    : Trainer(world, [&] {
        Options all;
        all.trainer = std::move(options);
        return all;
      }()) {}

// Braces, since they evaluate from left to right: the registry has the plan's plugins before it is moved.
// NOLINTNEXTLINE(performance-unnecessary-value-param): as the other constructors.
Trainer::Trainer(World& world, Options options, Registry registry)
    : Trainer{world, options, decide(world, options, registry), std::move(registry)} {}

Trainer::Trainer(World& world, Options options, Plan plan, Registry registry, Accelerator* accelerator)
    : world_(world),
      options_(expand_presets(std::move(options))),
      plan_(std::move(plan)),
      accelerator_(accelerator),
      registry_(std::move(registry)),
      state_(std::make_unique<TrainerState>()) {
  run_agreed(world_, [this] {
    register_built_in(registry_);
    require_ranks(plan_, world_);
    device_ = at::Device(plan_.ranks.at(static_cast<std::size_t>(world_.rank())).device);
    if (!device_.is_cpu() && accelerator_ == nullptr) accelerator_ = &open_accelerator();
    PluginLoader loader(registry_);
    for (const std::string& file : options_.plugins) loader.load(file);
    loader.require(Strategy::kKind, plan_.strategy);
    if (plan_.comm_hook) loader.require(CommHook::kKind, plan_.comm_hook->name);
  });
  world_.set_timeout(options_.timeout_seconds, {});
  apply_compute_settings(plan_, world_.facts(), device_);
  set_thread_counts(world_, options_.data.num_workers, !device_.is_cpu());
  run_agreed(world_, [this] { require_planned_devices(); });
  if (accelerator_ == nullptr || !world_.is_root()) return;
  const std::string hint = tf32_hint(plan_, accelerator_->has_tf32(device_));
  if (!hint.empty()) log_info(hint);
}

void Trainer::require_planned_devices() const {
  if (accelerator_ == nullptr) return;
  const RankPlan& own = plan_.ranks.at(static_cast<std::size_t>(world_.rank()));
  for (std::size_t i = 0; i < std::min(own.devices.size(), own.uuids.size()); ++i) {
    const std::string other =
        other_gpu_than_planned(own.devices[i], own.uuids[i], accelerator_->uuid(at::Device(own.devices[i])));
    if (!other.empty()) throw ConfigError("trainer.devices", other, "", MessageCode::wrong_ranks);
  }
}

Trainer::~Trainer() = default;

Filesystem& Trainer::files() const { return outputs_.files != nullptr ? *outputs_.files : real_filesystem(); }

void Trainer::add_callback(std::unique_ptr<Callback> callback) {
  state_->callbacks.push_back(std::move(callback));
}

void Trainer::add_logger(std::unique_ptr<MetricLogger> logger) {
  state_->loggers.push_back(std::move(logger));
}

const std::string& Trainer::log_dir() const { return state_->log_dir; }

std::string Trainer::where() const {
  return state_->running != nullptr ? state_->running->where() : state_->failed_at;
}

RunSummary Trainer::run(const Call& call, std::function<void(Session&)> work) {
  refuse_after_signal(call.stage);
  require_own_parts(call.module);
  load_weights_once(call.module);
  load_values_to_evaluate(call);
  open_data(call);
  state_->failed_at.clear();
  const SessionInputs inputs{
      world_,           options_, plan_,        registry_,   device_, accelerator_, outputs_.config_yaml,
      replica_factory_, files(),  outputs_.log, call.log_dir};
  Session session(inputs, *state_, registry_.make<Strategy>(plan_.strategy, plan_.strategy_arguments),
                  call.module, call.data, call.stage);
  // Ends before the session, and stands until an error has been reported: what it has on a device may have
  // failed.
  std::function<void(Session&)> in_session = std::move(work);
  try {
    session.open();
    in_session(session);
    in_session = nullptr;
    last_summary_ = session.finish();
  } catch (const Interrupted& signal) {
    in_session = nullptr;
    last_summary_ = session.stop(signal);
  } catch (const std::exception& error) {
    fail(session, error);
    throw;
  } catch (...) {
    session.fail(static_cast<int>(ExitCode::failure));
    throw;
  }
  return *last_summary_;
}

void Trainer::open_data(const Call& call) {
  const DataOptions& options = options_.data;
  run_agreed(world_, [&] {
    if (world_.facts().local_rank == 0) call_data(options, [&] { call.data.prepare_data(options); });
  });
  const Stage stage = call.stage == Stage::tune ? Stage::fit : call.stage;
  run_agreed(world_, [&] { call_data(options, [&] { call.data.setup(stage, options); }); });
}

/// A signal ends the program, not the one call that it came in.
void Trainer::refuse_after_signal(Stage stage) const {
  if (!last_summary_ || last_summary_->exit_code == 0) return;
  throw StoppedBefore(static_cast<ExitCode>(last_summary_->exit_code), MessageCode::none,
                      std::string(name_of(stage)) + " is left out: the call before was stopped by " +
                          last_summary_->stopped_by);
}

void Trainer::load_values_to_evaluate(const Call& call) {
  if (call.stage == Stage::fit || call.stage == Stage::tune) return;
  const std::string& asked_for = call.evaluate.ckpt_path;
  const bool trained = state_->fitted.has_value();
  // What a fit has trained is evaluated as it is, unless this call asks for something else.
  if (trained && asked_for.empty()) return;
  Options options = options_;
  options.subcommand = name_of(call.stage);  // for which a checkpoint of weights only will do
  if (!asked_for.empty()) options.ckpt_path = asked_for;
  load_model_of_checkpoint(world_, files(), options, trainable(call.module), own_run());
}

std::string Trainer::own_run() const { return state_->fitted ? state_->log_dir : std::string(); }

std::unique_ptr<Module> Trainer::init_module(const std::function<std::unique_ptr<Module>()>& make) {
  std::unique_ptr<Module> made = cxtrain::init_module(world_, plan_, options_, make);
  weights_are_loaded_ = true;
  made_.insert(made.get());
  return made;
}

void Trainer::require_own_parts(const Module& module) {
  run_agreed(world_, [&] {
    if (made_.contains(&module)) return;
    for (const NamedTensor& parameter : module.all_parameters()) {
      if (!is_hollow(parameter.tensor)) continue;
      throw ConfigError("model", "the ranks have parts of `" + parameter.name + "` for another trainer",
                        "make the model with init_module() of the trainer that uses it",
                        MessageCode::bad_model);
    }
  });
}

void Trainer::load_weights_once(Module& module) {
  if (std::exchange(weights_are_loaded_, true) || options_.model_weights.path.empty()) return;
  run_agreed(world_, [&] { load_initial_weights(module, options_.model_weights); });
}

void Trainer::fail(Session& session, const std::exception& error) {
  state_->failed_at = where();
  session.fail(error);
  const bool others_wait = world_.size() > 1 && dynamic_cast<const AgreedError*>(&error) == nullptr;
  if (accelerator_ == nullptr || !others_wait) return;
  end_job(world_, state_->failed_at, code_of(error), printed(error));
}

RunSummary Trainer::fit(Module& module, DataModule& data, const FitArgs& args) {
  refuse_after_signal(Stage::fit);  // before a checkpoint is read
  Options options = options_;
  if (!args.ckpt_path.empty()) options.ckpt_path = args.ckpt_path;
  // The options name the checkpoint of the first fit. Another fit begins with the model as it is.
  if (state_->fitted && args.ckpt_path.empty()) return run_fit(module, data, std::nullopt);
  return run_fit(module, data, load_checkpoint(world_, files(), options, trainable(module), own_run()));
}

RunSummary Trainer::fit(Module& module, DataModule& data, const ResumeFrom& from) {
  Manifest manifest;
  manifest.data = from.data;
  return run_fit(module, data,
                 LoadedCheckpoint{{"", std::move(manifest), from.log_dir, from.in_place}, from.state});
}

RunSummary Trainer::run_fit(Module& module, DataModule& data, std::optional<LoadedCheckpoint> from) {
  const Call call{Stage::fit, module, data,
                  from && from->chosen.in_place ? from->chosen.log_dir : std::string()};
  return run(call, make_fit(std::move(from)));
}

LrFinderResult Trainer::lr_find(Module& module, DataModule& data, const LrSweep& sweep) {
  LrFinderResult result;
  run({Stage::tune, module, data}, [&](Session& session) { result = cxtrain::lr_find(session, sweep); });
  return result;
}

std::int64_t Trainer::scale_batch_size(Module& module, DataModule& data, const BatchSizeSearch& search) {
  std::int64_t found = 0;
  run({Stage::tune, module, data},
      [&](Session& session) { found = cxtrain::scale_batch_size(session, search); });
  return found;
}

RunSummary Trainer::validate(Module& module, DataModule& data, const EvaluateArgs& args) {
  return run({Stage::validate, module, data, {}, args}, evaluate_stage);
}

RunSummary Trainer::test(Module& module, DataModule& data, const EvaluateArgs& args) {
  return run({Stage::test, module, data, {}, args}, evaluate_stage);
}

RunSummary Trainer::predict(Module& module, DataModule& data, const EvaluateArgs& args) {
  return run({Stage::predict, module, data, {}, args}, [this](Session& session) {
    const StageData of_stage = open_stage(session.context());
    predictions_ = cxtrain::predict(session.context(), of_stage.loaders, of_stage.batches);
    session.folder().write_predictions(predictions_);
  });
}

const Predictions& Trainer::predictions(std::size_t dataloader_idx) const {
  if (dataloader_idx < predictions_.size()) return predictions_[dataloader_idx];
  throw std::out_of_range("predictions(" + std::to_string(dataloader_idx) + "): the number of loaders was " +
                          std::to_string(predictions_.size()));
}

}  // namespace cxtrain
