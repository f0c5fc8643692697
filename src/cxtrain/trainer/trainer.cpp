#include "cxtrain/trainer/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/stop_signals.h"
#include "cxtrain/callbacks/built_in.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/switches.h"
#include "cxtrain/config/values.h"
#include "cxtrain/device/cuda_driver.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "cxtrain/plugin/known_components.h"
#include "cxtrain/plugin/loader.h"
#include "cxtrain/trainer/compute_settings.h"
#include "cxtrain/trainer/data_fingerprint.h"
#include "cxtrain/trainer/divide_cores.h"
#include "cxtrain/trainer/evaluation_loop.h"
#include "cxtrain/trainer/fit_loop.h"
#include "cxtrain/trainer/resume.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/training_state.h"
#include "cxtrain/trainer/tuner.h"
#include "cxtrain/trainer/weight_averaging.h"
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

/// What a program that makes its own Trainer has to leave to its launcher, to `run_main` or `run_trainer`.
void require_ranks(const Plan& plan, const World& world) {
  if (!needs_launch(plan, world.facts())) return;
  throw ConfigError(
      "trainer.strategy",
      plan.strategy + " on " + std::to_string(plan.world_size) +
          " devices needs as many ranks, and this process was started alone",
      "start it as `mpirun -np " + std::to_string(plan.world_size) +
          " PROGRAM`, or let cxtrain::run_trainer, or run_main, start them (cxtrain/cli/main.h)",
      MessageCode::wrong_ranks);
}

/// What goes wrong inside LibTorch or for want of memory is the fault of the arguments.
void set_up(DataModule& data, const DataOptions& options) {
  try {
    build_within_memory("data", "data.path=" + options.path, [&] { data.setup(options); });
  } catch (const std::filesystem::filesystem_error& error) {
    throw DataError("data: " + message_of(error) + "; check the path and its permissions",
                    MessageCode::file_failed);
  }
}

/// Empty on other ranks than the first, and where data may change while they train or each rank has its own.
std::string fingerprint_of_training(const World& world, const DataLoader& loader, const Options& options) {
  const bool of_each_rank = world.size() > 1 && loader.shard().count == 1;
  const bool reloaded = options.trainer.reload_dataloaders_every_n_epochs > 0;
  if (!options.data.fingerprint || !world.is_root() || of_each_rank || reloaded) return {};
  const SteadyClock clock;
  const double began = clock.now();
  std::string text = to_text(fingerprint_of(loader.dataset(), clock));
  log_detail("training data: " + text + " (looked at for " +
             std::to_string(std::lround((clock.now() - began) * 1e6)) + " us)");
  return text;
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
      options_(with_switches(std::move(options))),
      plan_(std::move(plan)),
      accelerator_(accelerator),
      registry_(std::move(registry)),
      state_(std::make_unique<TrainerState>()),
      files_(&real_filesystem()) {
  run_agreed(world_, [this] {
    register_built_in(registry_);
    require_ranks(plan_, world_);
    device_ = at::Device(plan_.ranks.at(static_cast<std::size_t>(world_.rank())).device);
    if (!device_.is_cpu() && accelerator_ == nullptr) accelerator_ = &open_accelerator();
    PluginLoader loader(registry_);
    for (const std::string& file : options_.plugins) loader.load(file);
    loader.require(Strategy::kKind, plan_.strategy);
  });
  world_.set_timeout(options_.timeout_seconds, {});
  apply_compute_settings(plan_, world_.facts(), device_);
  divide_cores(world_, options_.data.num_workers, !device_.is_cpu());
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

void Trainer::add_callback(std::unique_ptr<Callback> callback) {
  state_->callbacks.push_back(std::move(callback));
}

void Trainer::add_logger(std::unique_ptr<MetricLogger> logger) {
  state_->loggers.push_back(std::move(logger));
}

const std::string& Trainer::log_dir() const { return state_->log_dir; }

std::string Trainer::where() const { return state_->where ? state_->where() : std::string(); }

RunSummary Trainer::in_session(Stage stage, Module& module, DataModule& data,
                               const std::function<void(Session&)>& work, const std::string& log_dir,
                               const EvaluateArgs& args) {
  refuse_after_signal(stage);
  initialize_once(module);
  if (stage != Stage::fit && stage != Stage::tune) load_values_to_evaluate(stage, module, args);
  run_agreed(world_, [&] { set_up(data, options_.data); });
  const SessionInputs inputs{world_,       options_,         plan_,   registry_, device_, accelerator_,
                             config_text_, replica_factory_, *files_, log_,      log_dir};
  Session session(inputs, *state_, registry_.make<Strategy>(plan_.strategy, plan_.strategy_arguments), module,
                  stage);
  try {
    session.open();
    work(session);
    last_summary_ = session.finish();
  } catch (const Interrupted& signal) {
    session.tell(signal);
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

/// A signal ends the program, not the one call that it came in.
void Trainer::refuse_after_signal(Stage stage) const {
  if (!last_summary_ || last_summary_->exit_code == 0) return;
  throw StoppedBefore(static_cast<ExitCode>(last_summary_->exit_code), MessageCode::none,
                      std::string(name_of(stage)) + " is left out: the call before was stopped by " +
                          last_summary_->stopped_by);
}

void Trainer::load_values_to_evaluate(Stage stage, Module& module, const EvaluateArgs& args) {
  const bool trained = state_->fitted.has_value();
  // What a fit has trained is evaluated as it is, unless this call asks for something else.
  if (trained && args.ckpt_path.empty()) return;
  Options options = options_;
  options.subcommand = name_of(stage);  // for which a checkpoint of weights only will do
  if (!args.ckpt_path.empty()) options.ckpt_path = args.ckpt_path;
  load_model_of_checkpoint(world_, *files_, options, module, trained ? state_->log_dir : std::string());
}

void Trainer::initialize_once(Module& module) {
  const std::function<void(Module&)> initialize = std::exchange(initialize_, nullptr);
  if (initialize) run_agreed(world_, [&] { initialize(module); });
}

void Trainer::run_loop(Session& session, const std::function<void()>& loop) const {
  try {
    loop();
  } catch (const Interrupted&) {
    throw;  // on all ranks
  } catch (const std::exception& error) {
    if (ends_job(error)) fail(session, error);
    throw;
  }
}

bool Trainer::ends_job(const std::exception& error) const {
  return accelerator_ != nullptr && world_.size() > 1 && dynamic_cast<const AgreedError*>(&error) == nullptr;
}

void Trainer::fail(Session& session, const std::exception& error) const {
  const int status = static_cast<int>(code_of(error));
  session.tell(error);
  session.fail(status);
  if (!ends_job(error)) return;
  const std::string step = where();
  log_error("rank " + std::to_string(world_.rank()) + " on " + world_.facts().hostname +
            (step.empty() ? "" : ", " + step) + ": " + printed(error));
  world_.report_end(status);
  world_.abort(status);
}

RunSummary Trainer::fit(Module& module, DataModule& data) {
  // Another fit of this trainer begins where the program says.
  std::optional<LoadedCheckpoint> from;
  if (!state_->fitted) from = load_checkpoint(world_, *files_, options_, module);
  if (!from) return fit_from(nullptr, module, data);
  const ResumeFrom place{from->state, from->chosen.log_dir, from->chosen.in_place,
                         from->chosen.manifest.data};
  return fit_from(&place, module, data, [&from] { from->state = {}; });
}

RunSummary Trainer::fit(Module& module, DataModule& data, const StateDict& checkpoint) {
  return fit(module, data, ResumeFrom{checkpoint});
}

RunSummary Trainer::fit(Module& module, DataModule& data, const ResumeFrom& from) {
  return fit_from(&from, module, data);
}

RunSummary Trainer::fit_from(const ResumeFrom* from, Module& module, DataModule& data,
                             const std::function<void()>& taken) {
  const auto work = [&](Session& session) {
    TrainContext& context = session.context();
    if (from != nullptr) {
      load_place_and_data(from->state, context, data);
    } else {
      Tuner(session, module, data).tune();
    }
    FitData loaders(
        world_, [&] { return session.fit_loaders(data); }, options_.trainer,
        module.trainer_defaults().max_epochs, context.state);
    context.data_fingerprint = fingerprint_of_training(world_, loaders.train(), options_);
    if (from != nullptr) {
      require_data_of_checkpoint(world_, from->data, context.data_fingerprint, loaders.train().dataset());
    }
    OptimizerSetup setup;
    run_agreed(world_, [&] { setup = optimizer_setup(module, options_, context.tuned.lr); });
    std::unique_ptr<TrainedParameters> trained = context.parts.strategy.prepare(setup.optimizer);
    std::optional<Optimization> optimization;
    run_agreed(world_, [&] {
      optimization.emplace(context, setup, std::move(trained), loaders.limits(),
                           session.precision().scale_gradients);
      if (options_.trainer.stochastic_weight_avg) {
        context.add_callback(std::make_unique<StochasticWeightAveraging>(context, loaders, *optimization));
      }
    });
    const AnomalyDetection anomalies(options_.trainer.detect_anomaly);
    TrainingState state(context, data, *optimization);
    if (from != nullptr) state.load(from->state, {*files_, from->log_dir});
    if (taken) taken();
    context.checkpointer.emplace(Checkpointer::Parts{world_, *files_, context.parts.module,
                                                     &context.parts.strategy, state.sections_of_each_rank()});
    FitLoop loop(context, loaders, *optimization, &state);
    session.begin_files();
    // What is printed before the files are there is not in the log, which `report` reads.
    if (from != nullptr) log_detail("resumed at " + context.where());
    if (!options_.trainer.barebones) log_info(context.model_name() + ": " + loaders.describe());
    run_loop(session, [&] { loop.fit(); });
  };
  const bool in_place = from != nullptr && from->in_place;
  return in_session(Stage::fit, module, data, work, in_place ? from->log_dir : std::string());
}

std::unique_ptr<DataLoader> Trainer::agreed_loader(Session& session,
                                                   const std::function<DataLoaderSpec()>& spec,
                                                   const char* lacks) {
  std::unique_ptr<DataLoader> loader;
  std::string own;
  run_agreed(world_, [&] {
    loader = session.loader(spec(), /*training=*/false);
    if (!loader) throw ConfigError("data", lacks, "", MessageCode::no_data);
    own = describe_length(*loader, world_);
  });
  require_same_data(world_, own);
  return loader;
}

RunSummary Trainer::evaluate_once(Module& module, DataModule& data, bool test, const EvaluateArgs& args) {
  const auto work = [&](Session& session) {
    const auto loader = agreed_loader(
        session, [&] { return test ? data.test_dataloader() : data.val_dataloader(); },
        test ? "has no test samples" : "has no validation samples");
    const BatchLimit& limit = test ? options_.trainer.limit_test_batches : options_.trainer.limit_val_batches;
    const EvaluationStage stage = test ? EvaluationStage::test : EvaluationStage::validate;
    const char* option = test ? "trainer.limit_test_batches" : "trainer.limit_val_batches";
    std::int64_t batches = 0;
    run_agreed(world_, [&] { batches = limited_batches(limit, option, loader->num_batches()); });
    std::optional<MetricStore::Values> values;
    run_loop(session, [&] { values = evaluate(session.context(), stage, *loader, batches); });
    run_agreed(world_, [&] {
      if (!values) throw StepNotDefined(test ? "test" : "validate", test ? "test_step" : "validation_step");
    });
    session.context().rows.log(*values);
  };
  return in_session(test ? Stage::test : Stage::validate, module, data, work, /*log_dir=*/{}, args);
}

LrFinderResult Trainer::lr_find(Module& module, DataModule& data, const LrSweep& sweep) {
  LrFinderResult result;
  in_session(Stage::tune, module, data,
             [&](Session& session) { result = Tuner(session, module, data).lr_find(sweep); });
  return result;
}

std::int64_t Trainer::scale_batch_size(Module& module, DataModule& data, const BatchSizeSearch& search) {
  std::int64_t found = 0;
  in_session(Stage::tune, module, data,
             [&](Session& session) { found = Tuner(session, module, data).scale_batch_size(search); });
  return found;
}

RunSummary Trainer::validate(Module& module, DataModule& data, const EvaluateArgs& args) {
  return evaluate_once(module, data, /*test=*/false, args);
}
RunSummary Trainer::test(Module& module, DataModule& data, const EvaluateArgs& args) {
  return evaluate_once(module, data, /*test=*/true, args);
}

RunSummary Trainer::predict(Module& module, DataModule& data, const EvaluateArgs& args) {
  const auto work = [&](Session& session) {
    const auto loader = agreed_loader(
        session, [&] { return data.predict_dataloader(); }, "has no samples to predict");
    std::int64_t batches = 0;
    run_agreed(world_, [&] {
      batches = limited_batches(options_.trainer.limit_predict_batches, "trainer.limit_predict_batches",
                                loader->num_batches());
    });
    run_loop(session, [&] { predictions_ = cxtrain::predict(session.context(), *loader, batches); });
    session.write_predictions(predictions_);
  };
  return in_session(Stage::predict, module, data, work, /*log_dir=*/{}, args);
}

}  // namespace cxtrain
